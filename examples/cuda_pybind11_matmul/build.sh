#!/bin/sh
# Builds build/matmul_ext.so with CMake, nvcc and pybind11 (pip install pybind11). PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
config=$("$python" -c "import pybind11; print(pybind11.get_cmake_dir())")
cmake -S . -B build/cmake -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$(command -v "$python")" -Dpybind11_DIR="$config"
cmake --build build/cmake
