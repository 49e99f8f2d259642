#!/bin/sh
# instructions.sh: what the GPU computes for every PTX instruction form that internal/ptxmath has; from the root of a
# checkout, on a machine with a Hopper GPU, CuPy and ptxas, no network and no Go; a minute on an H200. It writes
# $OUT/instructions.json.gz (default .cache/device), kept as testdata/vectors/ptx/instructions-sm90.json.gz, and the
# first results as they came, where a difference can be looked at. PYTHON and CUDA_HOME name other places than python3
# and /usr/local/cuda.
set -eu
PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
export OUT="${OUT:-$PWD/.cache/device}" PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-python3}" bench/device/instructions.py
