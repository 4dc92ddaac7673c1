#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// What only a LibTorch with CUDA can say: gpu_cuda.cpp, or gpu_missing.cpp in its place.
namespace foretime::acceptance {

/// Names and texts: the GPU, its memory and kind, the driver, CUDA.
std::vector<std::pair<std::string, std::string>> gpu_facts();

/// LibTorch's memory on the current GPU: forgets the peak, or tells it in bytes.
void forget_gpu_peak();
int64_t gpu_peak_bytes();

/// While it lives, an operation of LibTorch that lets the host wait for the GPU throws.
class NoWaits {
 public:
  NoWaits();
  ~NoWaits();
  NoWaits(const NoWaits&) = delete;
  NoWaits& operator=(const NoWaits&) = delete;

 private:
  int before_ = 0;
};

}  // namespace foretime::acceptance
