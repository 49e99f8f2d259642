#!/bin/sh
# artifacts.sh: the compiled kernels that need nvcc, NVRTC or Triton, and what NVIDIA's tools say about them; from the
# root of a checkout, on a machine with CUDA 13 and Triton, no network and no Go. It makes the folders nvcc13, nvrtc13,
# triton36 and pairs-triton of testdata/ptx, and testdata/cubin and testdata/sass, and packs them into
# $OUT/artifacts.tar.gz (default .cache/device); unpack that at the root. PYTHON and CUDA_HOME name other places than
# python3 and /usr/local/cuda.
#
# artifacts.sh ptxas: asks ptxas about what package ptx prints and accepts, and about registers. It runs the tests of the
# package that need ptxas, which travel as a program: CGO_ENABLED=0 go test -c -o bin/ptx.test ./internal/ptx
set -eu
OUT="${OUT:-$PWD/.cache/device}"
mkdir -p "$OUT"
if [ "${1-}" = ptxas ]; then
	PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
	cd internal/ptx
	ptxas --version | tail -2
	GPUEMU_SOAK=${VARIANTS:-20000} ../../bin/ptx.test -test.v -test.run 'Ptxas|Estimate' | tee "$OUT/ptxas.txt"
	exit 0
fi
# No bytecode beside the sources: the folder of kernels travels as it is.
export OUT PYTHONDONTWRITEBYTECODE=1 TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$(mktemp -d)}"
exec "${PYTHON:-python3}" bench/device/artifacts.py
