#!/bin/sh
# artifacts.sh [FOLDER]: the compiled kernels that need nvcc, NVRTC or Triton, and what NVIDIA's tools say about them;
# from the root of a checkout, on a machine with CUDA 13 and Triton, no network and no Go. It makes the folders nvcc13,
# nvrtc13, triton36 and pairs-triton of testdata/ptx, and testdata/cubin and testdata/sass, and packs them into
# $OUT/artifacts.tar.gz (default .cache/device); unpack that at the root. With FOLDER, or where printed/ is there, it
# also asks ptxas about every PTX file in it and writes accepted and refused ones to $OUT/printed.txt. PYTHON and
# CUDA_HOME name other places than python3 and /usr/local/cuda.
set -u
OUT="${OUT:-$PWD/.cache/device}"
python=${PYTHON:-python3}
# No bytecode beside the sources: the folder of kernels travels as it is.
export OUT PYTHONDONTWRITEBYTECODE=1 TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$(mktemp -d)}"
mkdir -p "$OUT"
failed=0
"$python" bench/device/artifacts.py make || failed=1
printed=${1:-printed}
if [ -d "$printed" ]; then
	"$python" bench/device/artifacts.py accept "$printed" || failed=1
else
	echo "no folder $printed: ptxas is not asked about printed PTX"
fi
exit $failed
