#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <torch/cuda.h>
#include <torch/types.h>

#include "configs/settings.h"
#include "models/gpu/launch.h"

namespace foretime::acceptance {

/// A Place says where a program computes: with the CPU's kernels, on a GPU, or with the GPU's kernels on the CPU.
class Place {
 public:
  static Place cpu() { return Place(torch::kCPU, false, "CPU"); }
  /// The GPU; without one, what GPUs run on the CPU.
  static Place device(bool gpu) {
    return gpu ? Place(torch::Device(torch::kCUDA, 0), false, "GPU") : Place(torch::kCPU, true, "GPU's kernels on CPU");
  }

  const torch::Device where;
  const std::string name;

  bool is_gpu() const { return where.is_cuda(); }
  configs::Device setting() const { return is_gpu() ? configs::Device::cuda : configs::Device::cpu; }
  /// Runs `body` there. Not from two threads at once.
  template <class Body>
  auto run(Body&& body) const {
    const auto kernels = on_gpu_kernels_ ? std::make_unique<gpu::GpuKernelsOnCpu>() : nullptr;
    return body();
  }
  /// Returns when all that was queued there is done.
  void finish() const {
    if (is_gpu()) torch::cuda::synchronize(where.index());
  }

 private:
  Place(torch::Device device, bool on_gpu_kernels, std::string called)
      : where(device), name(std::move(called)), on_gpu_kernels_(on_gpu_kernels) {}
  bool on_gpu_kernels_;
};

/// What all checks are told.
struct Options {
  bool gpu = false;    // checks of the device are made on one
  bool brief = false;  // small graphs and few repetitions: a test of the program
  std::filesystem::path source, layouts, work;

  Place device() const { return Place::device(gpu); }
};

}  // namespace foretime::acceptance
