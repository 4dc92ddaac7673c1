#pragma once

#include <torch/types.h>

#include "base/no_copy.h"

namespace foretime::models {

/// Sets the type of this thread's matrix products on `device` for the duration of a scope: bfloat16 if `mixed` is true,
/// else the type of the inputs, even within a mixed scope. LibTorch's autocast does so; its lists name the other
/// affected operations. Parameters, gradients and sums over sparse rows (models/sparse) stay float32. The scope should
/// contain the forward pass alone. Throws ModelError for a device other than cpu and cuda.
class Autocast : NoCopy {
 public:
  Autocast(torch::Device device, bool mixed);
  ~Autocast();

 private:
  torch::DeviceType device_;
  bool was_enabled_;               // state before the scope
  torch::ScalarType type_before_;  // type of products before the scope
};

/// Allows or forbids, for the duration of a scope, that GPUs multiply float32 matrices as TF32 (11 significant bits of
/// each factor, sums in float32). It affects all threads of the process, and backward.
class Tf32Products : NoCopy {
 public:
  explicit Tf32Products(bool allowed);
  ~Tf32Products();

 private:
  bool before_;  // true if TF32 was allowed before the scope
};

}  // namespace foretime::models
