#pragma once

#include <torch/types.h>

namespace foretime::models {

/// Sets the type of this thread's matrix products on `device` for the duration of a scope: bfloat16 if `mixed`
/// (LibTorch's autocast, whose lists name the other affected operations), else the type of the inputs, also inside a
/// mixed scope. Parameters and their gradients stay float32; sums over sparse rows are float32 (models/sparse). The
/// scope should contain the forward pass alone, since backward uses the recorded types. Throws ModelError for a device
/// that autocast does not support.
class Autocast {
 public:
  Autocast(torch::Device device, bool mixed);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  bool was_enabled_;
  torch::ScalarType type_before_;
};

/// Allows or forbids, for the duration of a scope, that GPUs multiply float32 matrices as TF32 (11 significant bits of
/// each factor, sums in float32). It affects all threads of the process, and backward.
class Tf32Products {
 public:
  explicit Tf32Products(bool allowed);
  ~Tf32Products();
  Tf32Products(const Tf32Products&) = delete;
  Tf32Products& operator=(const Tf32Products&) = delete;

 private:
  bool before_;
};

}  // namespace foretime::models
