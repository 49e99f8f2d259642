// Convolution over two axes: a block for one output channel of an image, its weights in shared memory; strided image.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64

extern "C" __global__ void conv2d_direct(const T *x, const T *weight, const T *bias, T *y, int CI, int H, int W, int KH,
                                         int KW, int OH, int OW, int stride, int padding, int dilation, int stride_b,
                                         int stride_c, int stride_h, int stride_w) {
  extern __shared__ float taps[];
  int co = blockIdx.x;
  int b = blockIdx.y;
  int CO = gridDim.x;
  int count = CI * KH * KW;
  for (int i = threadIdx.x; i < count; i += THREADS) {
    taps[i] = float(weight[co * count + i]);
  }
  __syncthreads();
  for (int o = threadIdx.x; o < OH * OW; o += THREADS) {
    int top = o / OW * stride - padding;
    int left = o % OW * stride - padding;
    float acc = 0.0f;
    for (int ci = 0; ci < CI; ci++) {
      for (int kh = 0; kh < KH; kh++) {
        for (int kw = 0; kw < KW; kw++) {
          int h = top + kh * dilation;
          int w = left + kw * dilation;
          if (h >= 0 && h < H && w >= 0 && w < W) {
            float v = float(x[b * stride_b + ci * stride_c + h * stride_h + w * stride_w]);
            acc += v * taps[(ci * KH + kh) * KW + kw];
          }
        }
      }
    }
    y[(b * CO + co) * OH * OW + o] = T(acc + float(bias[co]));
  }
}
