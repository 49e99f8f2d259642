// What sources include for the CUDA language is in gpuemu_cuda.h, which every compilation without CUDA includes first.
#include "gpuemu_cuda.h"
