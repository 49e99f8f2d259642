// out[i, j] = input[i, index[i, j]]: a thread an element, input and index with strides.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

extern "C" __global__ void gather_strided(const T *x, const long long *index, T *y, int R, int K, int stride_xr,
                                          int stride_xc, int stride_ir, int stride_ik) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= R * K) {
    return;
  }
  int row = i / K;
  int col = int(index[row * stride_ir + i % K * stride_ik]);
  y[i] = x[row * stride_xr + col * stride_xc];
}
