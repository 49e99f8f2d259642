// planted.cuh is what the kernels beside it share. Each is compiled twice: as it stands it has a defect, in the line or
// the two lines with the comment PLANT and a class of findings; with -DSOUND it is the sound twin. `sound` is all that
// differs.
#pragma once
// clang writes no chain of inlining into PTX: what is inlined without debug information has the line it is used in.
#define HELPERS _Pragma("clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))")
#define HELPERS_END _Pragma("clang attribute pop")
HELPERS
#include "../cuda/compat.cuh"

#ifdef SOUND
constexpr bool sound = true;
#else
constexpr bool sound = false;
#endif

#define KERNEL extern "C" __global__ void

// thread is the number of a thread in a grid of one dimension.
INTRINSIC int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

INTRINSIC unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
HELPERS_END
