#!/bin/sh
# zoo.sh: what the GPU leaves behind for the launches of the zoo; from the root of a checkout, on a machine with a Hopper
# GPU, ptxas and Python, no network and no Go; half a minute on an H200. The launches are written beforehand, where Go is:
#
#	GPUEMU_ZOO_LAUNCHES=$PWD/bin/zoo.json.gz go test ./internal/ptxvm -count=1 -run TestZooLaunches
#
# It writes $OUT/h200.json.gz (default .cache/device), kept in testdata/vectors/zoo. PYTHON and CUDA_HOME name other
# places than python3 and /usr/local/cuda.
set -eu
PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
export OUT="${OUT:-$PWD/.cache/device}" PYTHONDONTWRITEBYTECODE=1
mkdir -p "$OUT"
exec "${PYTHON:-python3}" bench/device/zoo.py bin/zoo.json.gz
