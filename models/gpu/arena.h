#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <torch/types.h>

/// Many small arrays in one buffer, which one copy transfers to a device.
namespace foretime::gpu {

/// Represents a copy to a GPU that may still be in progress.
class Upload {
 public:
  virtual ~Upload() = default;
  /// Makes all further work of this thread's current stream wait for the copy; does not block the host.
  virtual void wait() = 0;
};

/// Places arrays one after another in host memory (pinned for a GPU). Each is returned as a tensor of the device, with
/// values only after upload() and the wait for its result. On the CPU it is the host memory, and nothing is copied.
class Arena {
 public:
  /// Allocates `bytes`, which the arrays may use in part. A GPU's memory and copies use a separate stream.
  Arena(torch::Device device, int64_t bytes);
  /// Returns an arena whose arrays are tensors on the CPU, in memory that `device` can copy from (see copy_to).
  static Arena on_host_for(torch::Device device, int64_t bytes);

  /// Returns the number of bytes that an array of `count` elements of type T takes.
  template <class T>
  static int64_t max_bytes(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Adds values as `dtype`: kInt, kLong or kDouble, else kFloat. Throws BrokenInvariant if the arena is full.
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

  /// Starts the copy to the device; null if nothing remains to wait for, as on the CPU. No array may be added later.
  std::shared_ptr<Upload> upload();
  /// Returns the number of calls of upload() and copy_to() since the process began; on a GPU each is one copy.
  static int64_t uploads();
  /// Returns the sum of the bytes of these calls.
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
  /// Reserves bytes and returns their offset. Throws BrokenInvariant if the arena is too small.
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
/// Copies the first `bytes` bytes of `host`, the memory of an Arena::on_host_for, to `device`. `host` must stay valid
/// until the copy is complete. Counts in Arena::uploads and Arena::uploaded_bytes.
Copied copy_to(torch::Device device, const torch::Tensor& host, int64_t bytes);

}  // namespace foretime::gpu
