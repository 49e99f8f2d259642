// Functions that are inlined into each other, for listings with lines of the source.
__device__ __forceinline__ float square(float x) {
    return x * x;
}

__device__ __forceinline__ float shifted(float x) {
    return square(x) + 1;
}

extern "C" __global__ void lines(float *x, int n) {
    if (threadIdx.x < n)
        x[threadIdx.x] = shifted(x[threadIdx.x]);
}
