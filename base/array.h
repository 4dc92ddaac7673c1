#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace foretime {

/// Holds a read-only run of values that either owns its memory or borrows it from an object that it keeps alive, such
/// as a mapped file. Copies share the memory.
template <class T>
class Array {
 public:
  Array() = default;
  Array(std::vector<T> values) {  // NOLINT: converts implicitly
    auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    view_ = *kept;
    keeper_ = std::move(kept);
  }
  /// Borrows the values of `view`, whose memory lives as long as `keeper`.
  Array(std::span<const T> view, std::shared_ptr<const void> keeper) : view_(view), keeper_(std::move(keeper)) {}

  int64_t size() const { return std::ssize(view_); }
  bool empty() const { return view_.empty(); }
  const T* data() const { return view_.data(); }
  const T& operator[](int64_t i) const { return view_[i]; }
  auto begin() const { return view_.begin(); }
  auto end() const { return view_.end(); }
  std::span<const T> span() const { return view_; }
  std::span<const T> subspan(int64_t start, int64_t count) const { return view_.subspan(start, count); }

 private:
  std::span<const T> view_;
  std::shared_ptr<const void> keeper_;
};

}  // namespace foretime
