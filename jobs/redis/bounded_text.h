#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foretime::jobs {

/// A text for async-signal-safe functions, which allocates nothing. add() drops what exceeds `capacity` bytes.
template <size_t capacity>
class BoundedText {
 public:
  void add(std::string_view more) {
    const size_t taken = std::min(more.size(), capacity - size_);
    std::copy_n(more.begin(), taken, bytes_.begin() + size_);
    size_ += taken;
  }
  void add(uint64_t number, int base = 10) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
    add(std::string_view(digits.data(), end - digits.data()));
  }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, capacity> bytes_{};
  size_t size_ = 0;
};

}  // namespace foretime::jobs
