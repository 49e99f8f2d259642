// Work whose addresses come from data: histogram, gather, scatter, sort.
#include "compat.cuh"

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (local[i]) atomicAdd(&bins[i], local[i]);
}

// One atomic per distinct value of a warp.
extern "C" __global__ void histogram_match(const unsigned *x, unsigned *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned peers = __match_any_sync(__activemask(), x[i]);
  if (__ffs(peers) - 1 == (int)(threadIdx.x & 31)) atomicAdd(&bins[x[i]], (unsigned)__popc(peers));
}

extern "C" __global__ void embedding(const int64_t *ids, const float4 *table, float4 *out, int width4, int64_t rows) {
  int64_t id = __ldg(ids + blockIdx.x);
  for (int c = threadIdx.x; c < width4; c += blockDim.x) {
    float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    out[(int64_t)blockIdx.x * width4 + c] = id >= 0 && id < rows ? __ldg(table + id * width4 + c) : zero;
  }
}

extern "C" __global__ void scatter_add(const int *index, const float *x, float *out, int n, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * width) atomicAdd(out + (size_t)index[i / width] * width + i % width, x[i]);
}

extern "C" __global__ void bitonic256(float *x) {
  __shared__ float v[256];
  int t = threadIdx.x;
  v[t] = x[blockIdx.x * 256 + t];
  for (int size = 2; size <= 256; size <<= 1)
    for (int stride = size >> 1; stride > 0; stride >>= 1) {
      __syncthreads();
      int other = t ^ stride;
      if (other > t) {
        bool up = (t & size) == 0;
        if ((v[t] > v[other]) == up) {
          float keep = v[t];
          v[t] = v[other];
          v[other] = keep;
        }
      }
    }
  __syncthreads();
  x[blockIdx.x * 256 + t] = v[t];
}

extern "C" __global__ void lower_bound(const double *keys, const double *x, int *out, int keys_n, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int lo = 0, hi = keys_n;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (keys[mid] < x[i]) lo = mid + 1;
    else hi = mid;
  }
  out[i] = lo;
}
