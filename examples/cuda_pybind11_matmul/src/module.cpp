// The Python module matmul_ext, by pybind11.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <stdexcept>

namespace py = pybind11;

extern "C" int matmul_f32(const float *a, const float *b, float *c, int m, int n, int k);
extern "C" const char *matmul_error(int status);

using Matrix = py::array_t<float, py::array::c_style>;

static Matrix matmul(const Matrix &a, const Matrix &b) {
  if (a.ndim() != 2 || b.ndim() != 2 || a.shape(1) != b.shape(0)) throw std::invalid_argument("shapes do not fit");
  Matrix out({a.shape(0), b.shape(1)});
  const int m = static_cast<int>(a.shape(0)), n = static_cast<int>(b.shape(1)), k = static_cast<int>(a.shape(1));
  const int status = matmul_f32(a.data(), b.data(), out.mutable_data(), m, n, k);
  if (status != 0) throw std::runtime_error(matmul_error(status));
  return out;
}

PYBIND11_MODULE(matmul_ext, module) {
  module.def("matmul", &matmul, py::arg("a").noconvert(), py::arg("b").noconvert(), "A·B of float32 matrices, on the GPU");
}
