#include "models/gpu/arena.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

#ifdef FORETIME_TORCH_CUDA
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace foretime::gpu {
namespace {

std::atomic<int64_t> uploaded = 0, bytes_uploaded = 0;

#ifdef FORETIME_TORCH_CUDA

/// Uploads run beside what computes: one stream a GPU, the same for all threads.
c10::cuda::CUDAStream upload_stream(torch::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  const std::lock_guard lock(mutex);
  return streams.try_emplace(device.index(), c10::cuda::getStreamFromPool(false, device.index())).first->second;
}

class GpuUpload final : public Upload {
 public:
  GpuUpload(const torch::Tensor& host, torch::Tensor buffer, int64_t bytes) : buffer_(std::move(buffer)) {
    const auto stream = upload_stream(buffer_.device());
    const c10::cuda::CUDAStreamGuard guard(stream);
    if (bytes > 0) buffer_.narrow(0, 0, bytes).copy_(host.narrow(0, 0, bytes), /*non_blocking=*/true);
    done_.record(stream);
  }
  void wait() override {
    const auto stream = c10::cuda::getCurrentCUDAStream(buffer_.device().index());
    done_.block(stream);
    buffer_.record_stream(stream);
  }

 private:
  torch::Tensor buffer_;
  c10::Event done_{c10::DeviceType::CUDA};  // ATen's would want the headers of cuSPARSE and cuSOLVER
};

torch::Tensor device_bytes(torch::Device device, int64_t bytes) {
  const c10::cuda::CUDAStreamGuard guard(upload_stream(device));
  return torch::empty({bytes}, torch::dtype(torch::kByte).device(device));
}

std::shared_ptr<Upload> start_upload(const torch::Tensor& host, const torch::Tensor& buffer, int64_t bytes) {
  return std::make_shared<GpuUpload>(host, buffer, bytes);
}

#else

torch::Tensor device_bytes(torch::Device device, int64_t bytes) {
  return torch::empty({bytes}, torch::dtype(torch::kByte).device(device));
}

/// Copies with LibTorch's operations, for devices other than CPU and CUDA.
std::shared_ptr<Upload> start_upload(const torch::Tensor& host, const torch::Tensor& buffer, int64_t bytes) {
  buffer.narrow(0, 0, bytes).copy_(host.narrow(0, 0, bytes));
  return nullptr;
}

#endif

}  // namespace

Arena::Arena(torch::Device device, int64_t bytes) : device_(device) {
  host_ = torch::empty({bytes}, torch::dtype(torch::kByte).pinned_memory(device.is_cuda()));
  buffer_ = device.is_cpu() ? host_ : device_bytes(device, bytes);
}

Arena Arena::on_host_for(torch::Device device, int64_t bytes) {
  return {torch::kCPU, torch::empty({bytes}, torch::dtype(torch::kByte).pinned_memory(device.is_cuda()))};
}

int64_t Arena::uploads() { return uploaded; }
int64_t Arena::uploaded_bytes() { return bytes_uploaded; }

std::shared_ptr<Upload> Arena::upload() {
  ++uploaded;
  bytes_uploaded += used_;
  if (device_.is_cpu()) return nullptr;
  auto started = start_upload(host_, buffer_, used_);
  host_ = torch::Tensor();
  return started;
}

Copied copy_to(torch::Device device, const torch::Tensor& host, int64_t bytes) {
  ++uploaded;
  bytes_uploaded += bytes;
  if (device.is_cpu()) return {host.narrow(0, 0, bytes).clone(), nullptr};
  auto buffer = device_bytes(device, bytes);
  auto upload = start_upload(host, buffer, bytes);
  return {std::move(buffer), std::move(upload)};
}

int64_t Arena::take(int64_t bytes) {
  FORETIME_CHECK(used_ + bytes <= host_.numel(), "{} bytes of {} are used, {} more asked for", used_, host_.numel(),
                 bytes);
  return std::exchange(used_, used_ + bytes);
}

torch::Tensor Arena::view(int64_t offset, int64_t count, torch::Dtype dtype) const {
  const int64_t size = c10::elementSize(dtype);
  return buffer_.narrow(0, offset, count * size).view(dtype);
}

}  // namespace foretime::gpu
