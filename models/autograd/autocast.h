#pragma once

#include <torch/types.h>

namespace foretime::models {

/// While it lives, this thread's matrix products on `device` are in bfloat16 (`mixed`: LibTorch's autocast, whose lists
/// say which other operations follow) or in their inputs' own type (not mixed, also inside of a mixed scope).
/// Parameters stay float32 and their gradients are; sums over sparse rows are float32 (models/sparse).
/// Ends with the scope, which should hold the forward pass alone: backward repeats its types by itself.
/// Throws ModelError for a device that autocast does not know.
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

/// While it lives, GPUs that can multiply float32 matrices as TF32 (11 significant bits of each factor, sums in
/// float32), on all threads of the process and in backward too, or may not.
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
