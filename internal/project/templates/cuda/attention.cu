// softmax(scale q k^T) v for q[batch, heads, m, d] and k, v[batch, others, n, d]; scale 0 stands for 1/sqrt(d). One
// thread per row of q, two passes over the keys: scores are computed twice, and nothing is stored between them.
__device__ static float score(const float *q, const float *key, int d, float scale) {
    float sum = 0;
    for (int i = 0; i < d; i++) sum += q[i] * key[i];
    return sum * scale;
}

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *y, int batch, int heads,
                                     int others, int m, int n, int d, float scale, int causal) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch * heads * m) return;
    int head = row / m, group = heads / others;
    if (scale == 0) scale = 1 / sqrtf((float)d);
    q += (long long)row * d;
    y += (long long)row * d;
    k += (long long)(head / group) * n * d;
    v += (long long)(head / group) * n * d;
    int seen = causal ? row % m + n - m + 1 : n;  // the last row sees the last key
    float most = -INFINITY, sum = 0;
    for (int j = 0; j < seen; j++) {
        float s = score(q, k + (long long)j * d, d, scale);
        most = s > most || s != s ? s : most;  // a NaN stays
    }
    for (int i = 0; i < d; i++) y[i] = 0;
    for (int j = 0; j < seen; j++) {
        float weight = expf(score(q, k + (long long)j * d, d, scale) - most);
        sum += weight;
        for (int i = 0; i < d; i++) y[i] += weight * v[(long long)j * d + i];
    }
    for (int i = 0; i < d; i++) y[i] /= sum;
}
