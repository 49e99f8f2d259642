// Two kernels whose results PTX leaves open. growth takes 1 from 2^x, and so shows every error of the approximation: the
// last place of a number near 1 is many places of the difference. escape iterates z = z^2 + c: the compiler leaves it to
// the assembler whether the squares are rounded before one is subtracted from the other.
extern "C" __global__ void growth(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = __nvvm_ex2_approx_f(x[i]) - 1.0f;
}

extern "C" __global__ void escape(const float *re, const float *im, int *steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = 0, y = 0;
    int k = 0;
    while (k < 1000 && x * x + y * y <= 4) {
        float t = x * x - y * y + re[i];
        y = 2 * x * y + im[i];
        x = t;
        k++;
    }
    steps[i] = k;
}
