// softmax(scale q k^T) v for q[heads, m, d], k[heads, n, d], v[heads, n, d]: one thread per row of q. Two passes over
// the keys, scores computed twice: nothing is stored between them.
// Launch: grid (heads * m + 63) / 64, block 64.
__device__ static float score(const float *q, const float *key, int d, float scale) {
    float sum = 0;
    for (int i = 0; i < d; i++) sum += q[i] * key[i];
    return sum * scale;
}

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *y, int heads, int m, int n,
                                     int d, float scale) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= heads * m) return;
    q += (long long)row * d;
    y += (long long)row * d;
    k += (long long)(row / m) * n * d;
    v += (long long)(row / m) * n * d;
    float most = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) {
        float s = score(q, k + (long long)j * d, d, scale);
        most = s > most || s != s ? s : most;  // a NaN stays
    }
    for (int i = 0; i < d; i++) y[i] = 0;
    for (int j = 0; j < n; j++) {
        float weight = expf(score(q, k + (long long)j * d, d, scale) - most);
        sum += weight;
        for (int i = 0; i < d; i++) y[i] += weight * v[(long long)j * d + i];
    }
    for (int i = 0; i < d; i++) y[i] /= sum;
}
