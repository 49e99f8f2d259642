// Causal attention in a sliding window: a warp for each query, the scores of the keys it sees in shared memory. The
// last query sees the last key.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

#define ALL 0xffffffffu

extern "C" __global__ void window_attention_row(const T *q, const T *k, const T *v, T *y, int HQ, int HKV, int M, int N,
                                                int D, int window) {
  extern __shared__ float score[];
  int lane = threadIdx.x;
  int row = blockIdx.x;
  int head = blockIdx.y;
  int group = head / HQ * HKV + head % HQ / (HQ / HKV);
  float scale = 1.0f / sqrtf(float(D));
  const T *query = q + (head * M + row) * D;
  const T *keys = k + group * N * D;
  const T *values = v + group * N * D;
  int end = row + N - M + 1;
  int begin = max(0, end - window);
  float top = -INFINITY;
  for (int n = begin + lane; n < end; n += 32) {
    float dot = 0.0f;
    for (int d = 0; d < D; d++) {
      dot += float(query[d]) * float(keys[n * D + d]);
    }
    score[n - begin] = dot * scale;
    top = fmaxf(top, dot * scale);
  }
  for (int m = 16; m > 0; m /= 2) {
    top = fmaxf(top, __shfl_xor_sync(ALL, top, m));
  }
  float sum = 0.0f;
  for (int n = begin + lane; n < end; n += 32) {
    float p = expf(score[n - begin] - top);
    score[n - begin] = p;
    sum += p;
  }
  for (int m = 16; m > 0; m /= 2) {
    sum += __shfl_xor_sync(ALL, sum, m);
  }
  __syncwarp();
  for (int d = lane; d < D; d += 32) {
    float acc = 0.0f;
    for (int n = begin; n < end; n++) {
      acc += score[n - begin] * float(values[n * D + d]);
    }
    y[(head * M + row) * D + d] = T(acc / sum);
  }
}
