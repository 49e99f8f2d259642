#!/bin/sh
# wgmma.sh: what the GPU computes for wgmma (every swizzle, both majors, all types, every n), wmma (all shapes, layouts
# and types) and reductions of bulk copies; from the root of a checkout, on a machine with a Hopper GPU, CuPy and ptxas,
# no network and no Go; half a minute on an H200. It writes $OUT/wgmma.json.gz (default .cache/device), kept as
# testdata/vectors/ptx/wgmma-sm90.json.gz, and $OUT/wgmma-outputs.npz with the results as they came, where a difference
# can be looked at. PYTHON and CUDA_HOME name other places than python3 and /usr/local/cuda.
set -eu
PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
export OUT="${OUT:-$PWD/.cache/device}" PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-python3}" bench/device/wgmma.py
