// Maximum of each window of an image; the border counts as -inf, NaN as the greatest. Strided input.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define THREADS 64

extern "C" __global__ void max_pool2d_window(const T *x, T *y, int C, int H, int W, int OH, int OW, int kernel,
                                             int stride, int padding, int stride_b, int stride_c, int stride_h,
                                             int stride_w) {
  int b = blockIdx.y / C;
  int c = blockIdx.y % C;
  int o = blockIdx.x * THREADS + threadIdx.x;
  if (o >= OH * OW) {
    return;
  }
  const T *plane = x + b * stride_b + c * stride_c;
  int top = o / OW * stride - padding;
  int left = o % OW * stride - padding;
  float best = -INFINITY;
  for (int h = max(top, 0); h < min(top + kernel, H); h++) {
    for (int w = max(left, 0); w < min(left + kernel, W); w++) {
      float v = float(plane[h * stride_h + w * stride_w]);
      best = v > best || v != v ? v : best;
    }
  }
  y[blockIdx.y * OH * OW + o] = T(best);
}
