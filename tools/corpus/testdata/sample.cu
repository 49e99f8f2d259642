// Every construct that operators look for; it need not compute anything.
typedef ELEMENT T;

#define THREADS 128

extern "C" __global__ void sample(const T *x, const T *w, T *y, float *total, int B, int H, int group, int HQ, int HKV,
                                  int stride_b, int stride_h, float eps) {
  __shared__ float part[THREADS];
  int row = blockIdx.x;
  int t = threadIdx.x;
  int head = row / (HQ / HKV);
  int groups = (H + group - 1) / group;
  int end = row + H - B + 1;
  float top = -INFINITY;
  float sum = 0.0f;
  float acc[4];
  for (int h = t; h < H; h += THREADS) {
    float v = h < H && row < B ? float(x[row % B * stride_b + h * stride_h]) : 0.0f;
    float score = v * scale;
    score = h <= end ? score : -INFINITY;
    float next = fmaxf(top, score);
    float alpha = expf(top - next);
    sum = sum * alpha + expf(score - next);
    acc[0] = acc[0] * alpha + v;
    top = next;
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, d);
  }
  part[t] = sum;
  __pipeline_wait_prior(0);
  __syncthreads();
  float mean = sum / float(H);
  float inv = 1.0f / sqrtf(mean + eps);
  float s = fmaxf(top, 1e-10f) / 127.0f;
  int q = __float2int_rn((part[0] - mean) / s);
  atomicAdd(&total[row], float(q));
  if (t < H) {
    y[row * H + t] = T(float(w[t]) * inv);
  }
}
