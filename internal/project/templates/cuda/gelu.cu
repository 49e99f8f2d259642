// 0.5 x (1 + erf(x / sqrt(2))): one thread per element.
extern "C" __global__ void gelu(const float *x, float *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}
