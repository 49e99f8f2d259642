#!/bin/sh
# receipts.sh: the four CUDA examples of receipts, from the root of a checkout with static bin/gpuemu and bin/gpu-proof
# (make build). Each is built, tested on the GPU, signed with a throw-away key and verified, with its outputs checked
# again on the CPU; then its kernel is broken, and no receipt must come out. It needs nvcc, CMake, pybind11, nanobind,
# JAX, pytest, git and openssl or ssh-keygen, no network and no Go; two minutes on an H200. What a machine lacks is
# named and counts as not run. The record is $OUT/receipts.md (default .cache/device), kept as
# docs/evidence/gpu-receipts.md.
set -eu
PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
OUT="${OUT:-$PWD/.cache/device}"
PYTHON="${PYTHON:-python3}"
PYTHONPATH="$PWD/python/pytest-gpu-proof/src:$PWD/python/src"
GPUEMU_BINARY="$PWD/bin/gpuemu" GPU_PROOF_BINARY="$PWD/bin/gpu-proof"
export PATH OUT PYTHON PYTHONPATH GPUEMU_BINARY GPU_PROOF_BINARY PYTHONDONTWRITEBYTECODE=1
for binary in "$GPUEMU_BINARY" "$GPU_PROOF_BINARY"; do
	test -x "$binary" || { echo "there is no $binary: make build makes it" >&2 && exit 3; }
done
mkdir -p "$OUT"
GPUEMU_HOME=$(mktemp -d)
export GPUEMU_HOME
trap '"$GPUEMU_BINARY" daemon stop >/dev/null 2>&1 || true; rm -rf "$GPUEMU_HOME"' EXIT
"$PYTHON" bench/device/receipts.py "$@"
