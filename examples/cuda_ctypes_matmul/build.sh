#!/bin/sh
# Builds build/libmatmul.so with nvcc; ARCH names another architecture than that of the GPU in this machine.
set -eu
cd "$(dirname "$0")"
mkdir -p build
nvcc -O3 -std=c++17 -arch="${ARCH:-native}" -shared -Xcompiler -fPIC -o build/libmatmul.so src/matmul.cu
