// A CUDA runtime without a device: host code of a project runs as it is, memory of the "device" is memory of the
// process, and each launch is handed to a callback, which executes it in the emulator. It is compiled against CUDA's
// own headers. cublas is there for the few products that programs compare with: plain loops over floats, column-major
// as there.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unistd.h>
#include <cuda_runtime_api.h>
#include <cublas_v2.h>

using Launch = void (*)(const char *name, const unsigned *grid, const unsigned *block, void **args, size_t shared);

static Launch launch;
static std::map<const void *, std::string> *names;
static std::map<char *, size_t> *memory;
static dim3 callGrid, callBlock;
static size_t callShared;
static cudaStream_t callStream;

static std::map<char *, size_t> &pieces() {
    if (!memory) memory = new std::map<char *, size_t>;
    return *memory;
}

extern "C" {

// Interface of the harness.
void gpuemu_on_launch(Launch function) { launch = function; }

void gpuemu_add_memory(void *at, size_t size) { pieces()[(char *)at] = size; }

// gpuemu_find gives the piece of device memory that an address lies in: 1 and where it is, or 0.
int gpuemu_find(char *at, char **begin, size_t *size) {
    auto piece = pieces().upper_bound(at);
    if (piece == pieces().begin()) return 0;
    --piece;
    if (at >= piece->first + piece->second) return 0;
    *begin = piece->first;
    *size = piece->second;
    return 1;
}

static cudaError_t start(const void *function, dim3 grid, dim3 block, void **args, size_t shared) {
    const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
    auto known = names->find(function);
    launch(known == names->end() ? "" : known->second.c_str(), g, b, args, shared);
    return cudaSuccess;
}

// What nvcc's host code calls.
void **__cudaRegisterFatBinary(void *) {
    static void *handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, void *, void *, void *, void *,
                            int *) {
    if (!names) names = new std::map<const void *, std::string>;
    (*names)[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    callGrid = grid, callBlock = block, callShared = shared, callStream = (cudaStream_t)stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = callGrid, *block = callBlock, *shared = callShared, *(cudaStream_t *)stream = callStream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t) {
    return start((const void *)kernel, grid, block, args, shared);
}
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t) {
    return start(function, grid, block, args, shared);
}
cudaError_t cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared,
                                        cudaStream_t) {
    return start(f, grid, block, args, shared);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args) {
    return start(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes);
}

// Memory. It begins with bytes ff: NaN, so that what was never written is seen in results.
cudaError_t cudaMalloc(void **at, size_t size) {
    if (posix_memalign(at, 256, size ? size : 1)) return cudaErrorMemoryAllocation;
    memset(*at, 0xff, size);
    gpuemu_add_memory(*at, size);
    return cudaSuccess;
}
cudaError_t cudaMallocAsync(void **at, size_t size, cudaStream_t) { return cudaMalloc(at, size); }
cudaError_t cudaFree(void *at) {
    pieces().erase((char *)at);
    free(at);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *at, cudaStream_t) { return cudaFree(at); }
cudaError_t cudaMallocHost(void **at, size_t size) {
    return (*at = malloc(size)) ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *at) {
    free(at);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
    memmove(to, from, size);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t) {
    return cudaMemcpy(to, from, size, kind);
}
cudaError_t cudaMemcpy2D(void *to, size_t pitch, const void *from, size_t step, size_t width, size_t height,
                         cudaMemcpyKind) {
    for (size_t i = 0; i < height; i++) memmove((char *)to + i * pitch, (const char *)from + i * step, width);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *at, int value, size_t size) {
    memset(at, value, size);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *at, int value, size_t size, cudaStream_t) { return cudaMemset(at, value, size); }

// Answers of one GPU. Its multiprocessors are few, as grids of persistent kernels follow them.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    strcpy(p->name, "pretended");
    p->major = 8, p->multiProcessorCount = 4, p->warpSize = 32, p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048, p->sharedMemPerBlock = 49152, p->sharedMemPerBlockOptin = 166912;
    p->sharedMemPerMultiprocessor = 167936, p->regsPerBlock = 65536, p->totalGlobalMem = (size_t)40 << 30;
    p->l2CacheSize = 40 << 20, p->regsPerMultiprocessor = 65536, p->maxBlocksPerMultiProcessor = 32;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrMultiProcessorCount            ? 4
             : attribute == cudaDevAttrComputeCapabilityMajor       ? 8
             : attribute == cudaDevAttrWarpSize                     ? 32
             : attribute == cudaDevAttrMaxSharedMemoryPerBlock      ? 49152
             : attribute == cudaDevAttrMaxThreadsPerMultiProcessor  ? 2048
             : attribute == cudaDevAttrMaxThreadsPerBlock           ? 1024
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 166912
                                                                    : 0;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int, size_t) {
    *n = 2;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *, int, size_t, unsigned) {
    *n = 2;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    *stream = nullptr;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = nullptr;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "error"; }
const char *cudaGetErrorName(cudaError_t) { return "error"; }
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *) {
    memset(a, 0, sizeof *a);
    a->ptxVersion = a->binaryVersion = 80, a->maxThreadsPerBlock = 1024, a->numRegs = 32;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = nullptr;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = nullptr;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) {
    *ms = 1;
    return cudaSuccess;
}

// A program that begins to measure time has checked its results: it ends here.
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    fflush(stdout);
    _exit(0);
}

static float at(const float *m, int leading, int row, int column, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? m[row + (size_t)column * leading] : m[column + (size_t)row * leading];
}
cublasStatus_t cublasCreate_v2(cublasHandle_t *) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasDestroy_v2(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtCreate(void **) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(void *) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                              float *c, int ldc) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++) sum += (double)at(a, lda, i, l, ta) * at(b, ldb, l, j, tb);
            float *out = c + i + (size_t)j * ldc;
            *out = (float)(*alpha * sum + (*beta == 0 ? 0 : *beta * *out));
        }
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                         int k, const float *alpha, const float *a, int lda, long long sa,
                                         const float *b, int ldb, long long sb, const float *beta, float *c, int ldc,
                                         long long sc, int count) {
    for (int i = 0; i < count; i++)
        cublasSgemm_v2(h, ta, tb, m, n, k, alpha, a + i * sa, lda, b + i * sb, ldb, beta, c + i * sc, ldc);
    return CUBLAS_STATUS_SUCCESS;
}
}
