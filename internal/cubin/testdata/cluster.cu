// What came with Hopper and CUDA 12: clusters of blocks, blocks of a fixed shape, parameters of more than 4 KiB.
extern "C" __global__ void __cluster_dims__(4, 2, 1) __launch_bounds__(128) clustered(float *x) { x[threadIdx.x] = 1; }

extern "C" __global__ void __block_size__((64, 2, 1)) fixed_shape(float *y) {
    y[0] = 1;
    __syncthreads();
}

struct Large {
    int words[1200];
};

extern "C" __global__ void large_parameter(Large l, short s, float *y) { *y = l.words[y != 0] + s; }
