#include "inference/kernels/matrix.h"

#include <algorithm>
#include <utility>

namespace foretime::inference {

std::vector<float> Workspace::take(size_t size) {
  // The smallest that is large enough; else the largest grows.
  auto best = free_.end();
  for (auto i = free_.begin(); i != free_.end(); ++i) {
    if (i->capacity() < size) continue;
    if (best == free_.end() || i->capacity() < best->capacity()) best = i;
  }
  std::vector<float> buffer;
  if (best != free_.end()) {
    buffer = std::move(*best);
    free_.erase(best);
  }
  buffer.resize(size);
  return buffer;
}

void Workspace::give(std::vector<float>&& buffer) {
  if (buffer.capacity() == 0) return;
  if (free_.size() < kKept) {
    free_.push_back(std::move(buffer));
    return;
  }
  const auto smallest = std::min_element(free_.begin(), free_.end(),
                                         [](const auto& a, const auto& b) { return a.capacity() < b.capacity(); });
  if (smallest->capacity() < buffer.capacity()) *smallest = std::move(buffer);
}

}  // namespace foretime::inference
