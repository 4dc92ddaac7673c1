#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <torch/types.h>

/// Many small arrays in one buffer, which goes to a device by one copy.
namespace foretime::device {

/// A copy to a device that may still be under way.
class Upload {
 public:
  virtual ~Upload() = default;
  /// What this thread's stream computes from now on comes after the copy.
  virtual void wait() = 0;
};

/// Arrays are laid one after another into host memory, pinned where they are for a GPU, and are tensors of the device
/// at once; what these hold is there when `upload` has been called and its result waited for. On the CPU the host
/// memory is the tensors' own, and nothing is copied.
class Arena {
 public:
  /// Of `bytes`, which may be more than is used. On a GPU, memory comes from, and copies run on, a stream of its own.
  Arena(torch::Device device, int64_t bytes);
  /// Of host memory that `device` can copy from by itself, where its arrays stay: nothing is uploaded.
  static Arena on_host_for(torch::Device device, int64_t bytes);

  /// Room that an array takes at most.
  template <class T>
  static int64_t room(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// The values, converted to `dtype` (kInt, kLong, kFloat or kDouble).
  template <class From>
  torch::Tensor add(const std::vector<From>& values, torch::Dtype dtype) {
    const auto count = static_cast<int64_t>(values.size());
    if (dtype == torch::kInt) return put<int32_t>(values.data(), count, dtype);
    if (dtype == torch::kLong) return put<int64_t>(values.data(), count, dtype);
    if (dtype == torch::kDouble) return put<double>(values.data(), count, dtype);
    return put<float>(values.data(), count, torch::kFloat);
  }

  /// Bytes as they are.
  torch::Tensor add_bytes(const void* from, int64_t bytes) {
    return put<uint8_t>(static_cast<const uint8_t*>(from), bytes, torch::kByte);
  }

  /// Starts the copy. Nothing may be added afterwards. Null on the CPU.
  std::shared_ptr<Upload> upload();
  /// How many arenas have been brought to where they were for since the process began; on a GPU each is one copy.
  static int64_t uploads();
  /// The bytes of these copies.
  static int64_t uploaded_bytes();
  torch::Device device() const { return device_; }
  /// Bytes that are in use.
  int64_t used() const { return used_; }
  /// What its arrays are views of.
  const torch::Tensor& memory() const { return buffer_; }

 private:
  Arena(torch::Device device, torch::Tensor host) : device_(device), host_(host), buffer_(std::move(host)) {}

  static constexpr int64_t kAlignment = 64;

  template <class To, class From>
  torch::Tensor put(const From* values, int64_t count, torch::Dtype dtype) {
    auto* to = reinterpret_cast<To*>(static_cast<char*>(host_.data_ptr()) + take(room<To>(count)));
    if constexpr (std::is_same_v<To, From>) {
      if (count > 0) std::memcpy(to, values, static_cast<size_t>(count) * sizeof(To));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(values[i]);
    }
    return view(reinterpret_cast<char*>(to) - static_cast<char*>(host_.data_ptr()), count, dtype);
  }
  /// Where the next array begins. Throws std::logic_error where the arena is too small.
  int64_t take(int64_t bytes);
  torch::Tensor view(int64_t offset, int64_t count, torch::Dtype dtype) const;

  torch::Device device_;
  torch::Tensor host_, buffer_;  // bytes; the same on the CPU
  int64_t used_ = 0;
};

/// Host memory on its way to a device, by one copy beside what computes.
struct Copied {
  torch::Tensor bytes;             // there when `upload` has been waited for
  std::shared_ptr<Upload> upload;  // null: it is there
};
/// The first `bytes` of `host`, which must stay until then, as Arena::on_host_for has it. Counts among Arena::uploads.
Copied copy_to(torch::Device device, const torch::Tensor& host, int64_t bytes);

}  // namespace foretime::device
