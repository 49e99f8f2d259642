// A file with code for both sides: what a fatbin looks like inside an object, a library and a program.
#include "compat.cuh"

__global__ void host_scale(float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}

__global__ void host_reverse(float *x) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[127 - threadIdx.x];
}

extern "C" int launch(float *x, int n) {
  host_scale<<<(n + 127) / 128, 128>>>(x, 2.0f, n);
  host_reverse<<<1, 128>>>(x);
  return (int)cudaGetLastError();
}

#ifdef MAIN
int main() {
  float *x = nullptr;
  if (cudaMalloc(&x, 128 * sizeof(float)) != cudaSuccess) return 1;
  int code = launch(x, 128);
  cudaFree(x);
  return code;
}
#endif
