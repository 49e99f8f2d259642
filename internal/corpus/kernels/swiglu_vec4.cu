// SwiGLU, silu(gate) up: four neighbours a load and a store, and the few elements behind the last four one by one.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;

struct alignas(4 * sizeof(T)) Four {
  T v[4];
};

__device__ T swiglu(T gate, T up) {
  float g = float(gate);
  return T(g / (1.0f + expf(-g)) * float(up));
}

extern "C" __global__ void swiglu_vec4(const T *gate, const T *up, T *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int fours = n / 4;
  if (i < fours) {
    Four g = ((const Four *)gate)[i];
    Four u = ((const Four *)up)[i];
    Four out;
    for (int j = 0; j < 4; j++) {
      out.v[j] = swiglu(g.v[j], u.v[j]);
    }
    ((Four *)y)[i] = out;
  }
  int tail = fours * 4 + i;
  if (tail < n) {
    y[tail] = swiglu(gate[tail], up[tail]);
  }
}
