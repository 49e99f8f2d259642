// The Python module matmul_ext, by nanobind.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>

namespace nb = nanobind;

extern "C" int matmul_f32(const float *a, const float *b, float *c, int m, int n, int k);
extern "C" const char *matmul_error(int status);

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<nb::numpy, float, nb::ndim<2>>;

static Result matmul(const Matrix &a, const Matrix &b) {
  if (a.shape(1) != b.shape(0)) throw std::invalid_argument("shapes do not fit");
  const size_t m = a.shape(0), n = b.shape(1), k = a.shape(1);
  auto out = std::make_unique<float[]>(m * n);
  const int status = matmul_f32(a.data(), b.data(), out.get(), static_cast<int>(m), static_cast<int>(n),
                                static_cast<int>(k));
  if (status != 0) throw std::runtime_error(matmul_error(status));
  float *data = out.release();
  nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<float *>(p); });
  return Result(data, {m, n}, owner);
}

NB_MODULE(matmul_ext, module) {
  module.def("matmul", &matmul, nb::arg("a").noconvert(), nb::arg("b").noconvert(), "A·B of float32 matrices, on the GPU");
}
