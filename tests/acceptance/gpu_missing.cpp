#include "tests/acceptance/gpu.h"

namespace foretime::acceptance {

std::vector<std::pair<std::string, std::string>> gpu_facts() {
  return {{"GPU", "none: LibTorch was built without CUDA"}};
}

void forget_gpu_peak() {}
int64_t gpu_peak_bytes() { return 0; }

NoWaits::NoWaits() = default;
NoWaits::~NoWaits() = default;

}  // namespace foretime::acceptance
