#!/bin/sh
# run.sh WORK: kernels of public projects in the emulator; prints the tables of docs/evidence/public-kernels.md.
# WORK is a folder outside of the repository with checkouts in WORK/src: llm.c, llama.cpp, vllm, bitsandbytes. PYTHON
# has torch, triton 3.6, liger_kernel and flash-linear-attention; NVCC is a compiler of CUDA 13, CUDA_INCLUDES has the
# headers of cublas and cusparse. Rows go to WORK/out, what is built to WORK/build: none of it belongs here.
set -eu
work=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/gpuemu
export GPUEMU_BINARY="$PWD/bin/gpuemu" GPUEMU_HOME="$work/home" TRITON_CACHE_DIR="$work/triton" GGML_NO_BACKTRACE=1
export PYTHONPATH="$PWD/python/src"
here=bench/public-kernels
python=${PYTHON:-python3}
version() { git -C "$work/src/$1" rev-parse --short=10 HEAD; }
rm -rf "$work/out"
"$python" $here/liger.py "$work/out" 80
"$python" $here/fla_ops.py "$work/out" 80
PROJECT_VERSION=$(version vllm) "$python" $here/vllm_ops.py "$work/out" "$work/src/vllm" 80
PROJECT_VERSION=$(version llm.c) "$python" $here/llmc.py "$work/out" "$work/src/llm.c" "$work/build/llm.c"
PROJECT_VERSION=$(version llama.cpp) "$python" $here/llamacpp.py "$work/out" "$work/src/llama.cpp" \
	"$work/build/llama.cpp"
PROJECT_VERSION=$(version bitsandbytes) "$python" $here/bitsandbytes.py "$work/out" "$work/src/bitsandbytes" \
	"$work/build/bitsandbytes"
"$GPUEMU_BINARY" daemon stop
"$python" $here/report.py "$work/out"
