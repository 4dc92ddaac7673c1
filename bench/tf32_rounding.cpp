// Makes matrix products of LibTorch on the CPU round as a GPU's in TF32 do: both factors are rounded to 10 bits of
// mantissa, to the nearest, and products are summed in float32. Loaded before a program with LibTorch by LD_PRELOAD;
// bench/precision.py uses it to measure what TF32 costs in quality. Only products of two float32 tensors change: what
// LibTorch calls for dense layers, forward and backward. Nothing of it runs on a GPU, whose order of summation differs
// as well.
#include <cstdint>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <torch/library.h>

namespace {

// What a tensor core reads of a float32. Infinities stay, and so do quiet NaNs.
at::Tensor rounded(const at::Tensor& x) {
  if (x.scalar_type() != at::kFloat) return x;
  auto result = x.contiguous().clone();
  auto* values = result.data_ptr<float>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    std::memcpy(values + i, &bits, sizeof bits);
  }
  return result;
}

at::Tensor rounded_mm(const at::Tensor& a, const at::Tensor& b) { return at::cpu::mm(rounded(a), rounded(b)); }

at::Tensor rounded_bmm(const at::Tensor& a, const at::Tensor& b) { return at::cpu::bmm(rounded(a), rounded(b)); }

at::Tensor rounded_addmm(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                         const at::Scalar& alpha) {
  return at::cpu::addmm(added, rounded(a), rounded(b), beta, alpha);
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("mm", &rounded_mm);
  library.impl("bmm", &rounded_bmm);
  library.impl("addmm", &rounded_addmm);
}

}  // namespace
