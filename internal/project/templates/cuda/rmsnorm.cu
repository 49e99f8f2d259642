// x / sqrt(mean(x^2) + eps) * weight over the last axis: one thread per row of x[rows, columns].
extern "C" __global__ void rmsnorm(const float *x, const float *weight, float *y, int rows, int columns, float eps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += (long long)row * columns;
    y += (long long)row * columns;
    float sum = 0;
    for (int i = 0; i < columns; i++) sum += x[i] * x[i];
    float scale = rsqrtf(sum / columns + eps);
    for (int i = 0; i < columns; i++) y[i] = x[i] * scale * weight[i];
}
