// softmax over the last axis: one thread per row of x[rows, columns].
extern "C" __global__ void softmax(const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += (long long)row * columns;
    y += (long long)row * columns;
    float most = x[0], sum = 0;
    for (int i = 1; i < columns; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;  // a NaN stays
    for (int i = 0; i < columns; i++) sum += y[i] = expf(x[i] - most);
    for (int i = 0; i < columns; i++) y[i] /= sum;
}
