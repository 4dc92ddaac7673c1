#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <torch/types.h>

/// Many small arrays in one buffer, which one copy transfers to a device.
namespace foretime::gpu {

/// Represents a copy to a device that may still be in progress.
class Upload {
 public:
  virtual ~Upload() = default;
  /// Makes all further work of this thread's stream wait for the copy.
  virtual void wait() = 0;
};

/// Places arrays one after another in host memory (pinned for a GPU). They are tensors of the device immediately, but
/// have their values only after `upload` was called and its result waited for. On the CPU the tensors use the host
/// memory, and nothing is copied.
class Arena {
 public:
  /// Reserves `bytes`, of which a part may stay unused. A GPU's memory and copies use a separate stream.
  Arena(torch::Device device, int64_t bytes);
  /// Returns an arena in host memory that `device` can copy from. Its arrays stay there; nothing is uploaded.
  static Arena on_host_for(torch::Device device, int64_t bytes);

  /// Returns the largest number of bytes that an array takes.
  template <class T>
  static int64_t max_bytes(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Adds the values, converted to `dtype` (kInt, kLong, kFloat or kDouble).
  template <class From>
  torch::Tensor add(const std::vector<From>& values, torch::Dtype dtype) {
    const auto count = std::ssize(values);
    if (dtype == torch::kInt) return put<int32_t>(values.data(), count, dtype);
    if (dtype == torch::kLong) return put<int64_t>(values.data(), count, dtype);
    if (dtype == torch::kDouble) return put<double>(values.data(), count, dtype);
    return put<float>(values.data(), count, torch::kFloat);
  }

  /// Adds bytes without conversion.
  torch::Tensor add_bytes(const void* from, int64_t bytes) {
    return put<uint8_t>(static_cast<const uint8_t*>(from), bytes, torch::kByte);
  }

  /// Starts the copy; null on the CPU. No array may be added afterwards.
  std::shared_ptr<Upload> upload();
  /// Returns the number of arenas that were uploaded since the process began; on a GPU each is one copy.
  static int64_t uploads();
  /// Returns the bytes of these copies.
  static int64_t uploaded_bytes();
  torch::Device device() const { return device_; }
  /// Returns the number of bytes in use.
  int64_t used() const { return used_; }
  /// Returns the tensor that all arrays are views of.
  const torch::Tensor& memory() const { return buffer_; }

 private:
  Arena(torch::Device device, torch::Tensor host) : device_(device), host_(host), buffer_(std::move(host)) {}

  static constexpr int64_t kAlignment = 64;

  template <class To, class From>
  torch::Tensor put(const From* values, int64_t count, torch::Dtype dtype) {
    auto* to = reinterpret_cast<To*>(static_cast<char*>(host_.data_ptr()) + take(max_bytes<To>(count)));
    if constexpr (std::is_same_v<To, From>) {
      if (count > 0) std::memcpy(to, values, count * sizeof(To));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(values[i]);
    }
    return view(reinterpret_cast<char*>(to) - static_cast<char*>(host_.data_ptr()), count, dtype);
  }
  /// Reserves bytes and returns their offset. Throws std::logic_error if the arena is too small.
  int64_t take(int64_t bytes);
  torch::Tensor view(int64_t offset, int64_t count, torch::Dtype dtype) const;

  torch::Device device_;
  torch::Tensor host_, buffer_;  // bytes; one tensor on the CPU
  int64_t used_ = 0;
};

/// Holds a copy of host memory on a device, made while other work runs.
struct Copied {
  torch::Tensor bytes;             // valid after `upload` has been waited for
  std::shared_ptr<Upload> upload;  // null: the copy is complete
};
/// Copies the first `bytes` of `host` (Arena::on_host_for), which must stay valid until the copy is complete. Counts in
/// Arena::uploads.
Copied copy_to(torch::Device device, const torch::Tensor& host, int64_t bytes);

}  // namespace foretime::gpu
