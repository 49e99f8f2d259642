// Textures and surfaces through handles, for nvcc alone.
#include "compat.cuh"

extern "C" __global__ void texture_sample(cudaTextureObject_t image, float *out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width || y >= height) return;
  float4 v = tex2D<float4>(image, x + 0.5f, y + 0.5f);
  out[y * width + x] = 0.25f * (v.x + v.y + v.z + v.w) + tex1Dfetch<float>(image, x);
}

extern "C" __global__ void surface_copy(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= width) return;
  uchar4 v = surf2Dread<uchar4>(from, x * 4, blockIdx.y);
  v.w = 255;
  surf2Dwrite(v, to, x * 4, blockIdx.y, cudaBoundaryModeZero);
}
