// Kernels whose resources differ: what the reader must get right is one per kernel. Nothing here is meant to compute
// something useful.
#define KERNEL extern "C" __global__ void

__constant__ float table[64];
__constant__ int primes[5] = {2, 3, 5, 7, 11};
__device__ float counters[33];
extern __shared__ float dynamic[];

KERNEL empty() {}

KERNEL copy(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

KERNEL constants(float *y) { y[threadIdx.x] = table[threadIdx.x & 63] + primes[threadIdx.x % 5]; }

KERNEL shared_static(const float *x, float *y) {
    __shared__ float tile[1000];
    __shared__ char flags[7];
    tile[threadIdx.x] = x[threadIdx.x];
    flags[threadIdx.x % 7] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = tile[999 - threadIdx.x] + flags[3];
}

KERNEL shared_dynamic(const float *x, float *y) {
    dynamic[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = dynamic[threadIdx.x ^ 1];
}

KERNEL local_array(const float *x, float *y, int n) {
    float a[64];
    for (int i = 0; i < 64; i++) a[i] = x[i * n];
    float s = 0;
    for (int i = 0; i < n; i++) s += a[(i * n) & 63];
    y[threadIdx.x] = s;
}

__device__ __noinline__ float pick(float a, int n) {
    float t[8];
    for (int i = 0; i < 8; i++) t[i] = a * i;
    return t[n & 7];
}

__device__ __noinline__ float pick_twice(float a, int n) { return pick(a, n) + pick(a * 2, n + 1) * counters[n]; }

KERNEL calls(float *y, int n) { y[threadIdx.x] = pick_twice(y[threadIdx.x], n); }

__device__ float (*const functions[2])(float, int) = {pick, pick_twice};

KERNEL calls_pointer(float *y, int n) { y[threadIdx.x] = functions[n & 1](y[0], n); }

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

KERNEL recursive(int *y, int n) { y[threadIdx.x] = fibonacci(n); }

// 1024 threads, twice per multiprocessor, leave 32 registers: 48 values are too many.
__global__ void __launch_bounds__(1024, 2) bounded(const float *x, float *y, int n) {
    float r[48];
    for (int i = 0; i < 48; i++) r[i] = x[threadIdx.x * 48 + i];
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 48; i++) r[i] = r[i] * r[(i + 7) % 48] + r[(i + 1) % 48];
    for (int i = 0; i < 48; i++) y[threadIdx.x * 48 + i] = r[i];
}

KERNEL wide(const double *x, double *y, int n) {
    double r[24];
#pragma unroll
    for (int i = 0; i < 24; i++) r[i] = x[threadIdx.x * 24 + i];
    for (int k = 0; k < n; k++)
#pragma unroll
        for (int i = 0; i < 24; i++) r[i] = r[i] * r[(i + 7) % 24] + r[(i + 1) % 24];
#pragma unroll
    for (int i = 0; i < 24; i++) y[threadIdx.x * 24 + i] = r[i];
}

struct Mixed {
    char bytes[300];
    double d;
    short s;
};

KERNEL parameters(char a, short b, Mixed m, float *y) { *y = a + b + m.bytes[y != 0] + m.d + m.s; }

KERNEL barriers(float *x) {
    asm volatile("bar.sync 3, 64;");
    x[0] = 1;
    asm volatile("bar.sync 7, 64;");
    x[1] = 2;
}

template <class T, int N> __global__ void reversed(T *p) {
    __shared__ T tile[N];
    tile[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = tile[N - 1 - threadIdx.x];
}
template __global__ void reversed<float, 32>(float *);
template __global__ void reversed<double, 96>(double *);

namespace {
__global__ void hidden(float *p, int q) { p[1] = q; }
}

void launch() { hidden<<<1, 1>>>(nullptr, 1); }
