#!/bin/sh
# Builds build/libmatmul_ffi.so with nvcc and the headers that JAX brings. PYTHON names the interpreter, ARCH another
# architecture than that of the GPU in this machine.
set -eu
cd "$(dirname "$0")"
headers=$("${PYTHON:-python3}" -c "import jax; print(jax.ffi.include_dir())")
mkdir -p build
nvcc -O3 -std=c++17 -arch="${ARCH:-native}" -I"$headers" -shared -Xcompiler -fPIC -o build/libmatmul_ffi.so \
	src/matmul_ffi.cu
