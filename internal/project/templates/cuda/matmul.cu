// y[m, n] = a[m, k] b[k, n]: one thread per element.
extern "C" __global__ void matmul(const float *a, const float *b, float *y, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; i++) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    y[(long long)row * n + column] = sum;
}
