#!/bin/sh
# Builds build/matmul_ext.so with CMake, nvcc and nanobind (pip install nanobind). PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
config=$("$python" -c "import nanobind; print(nanobind.cmake_dir())")
cmake -S . -B build/cmake -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$(command -v "$python")" -Dnanobind_DIR="$config"
cmake --build build/cmake
