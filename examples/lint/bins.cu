// Two kernels to look at with gpuemu lint. bins keeps its counts in an array that is indexed at run time, which the
// compiler must put into local memory; scale is as it should be.
extern "C" __global__ void bins(const float *x, int *count, int n)
{
    int mine[8] = {};
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        mine[int(x[i] / 0.3f) & 7] += 1;
    for (int b = 0; b < 8; b++)
        atomicAdd(&count[b], mine[b]);
}

extern "C" __global__ void scale(float4 *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 v = x[i];
        x[i] = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
    }
}
