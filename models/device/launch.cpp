#include "models/device/launch.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include <cxxabi.h>

#ifdef FORETIME_TORCH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

#include "models/device/join_kernels.h"
#include "models/device/nvrtc.h"
#include "models/device/pool_kernels.h"
#include "models/device/step_kernels.h"
#include "models/graph/error.h"

namespace foretime::device {
namespace {

std::atomic<int> on_cpu = 0;
std::atomic<int64_t> launched = 0;

template <class... Bodies>
std::vector<std::string> names() {
  return {type_name(typeid(Bodies))...};
}

template <class T>
std::vector<std::string> names_for() {
  return names<Rows<Sum<T, 1>>, Rows<Sum<T, 4>>, Pieces<Sum<T, 1>>, Pieces<Sum<T, 4>>, Rows<Maximum<T>>,
               Pieces<Maximum<T>>, Rows<MaximumGradient<T>>, Pieces<MaximumGradient<T>>, Rows<Weighted<T, 1>>,
               Rows<Weighted<T, 4>>, Pieces<Weighted<T, 1>>, Pieces<Weighted<T, 4>>, Dots<T, 1>, Dots<T, 4>,
               Rows<SoftmaxSums<T>>, Pieces<SoftmaxSums<T>>, SoftmaxWeights<T>, Rows<SoftmaxShare<T>>,
               Pieces<SoftmaxShare<T>>, SoftmaxGradient<T>, ActivationGradient<T>, EntryRows, SquareSums<T>,
               SegmentNorms, GlobalNorm, AdamStep<T>, JoinWords<int>, JoinWords<long long>, KeptPointers<T>,
               ScorePlaces<T>, TieSpans, ChosenNodes, KeptPlaces, KeptEntryCounts<T>, KeptEntries<T>, DegreeRoots<T>,
               NormalizedValues<T>>();
}

}  // namespace

bool uses_device_kernels(torch::Device device) { return !device.is_cpu() || on_cpu > 0; }

DeviceKernelsOnCpu::DeviceKernelsOnCpu() { ++on_cpu; }
DeviceKernelsOnCpu::~DeviceKernelsOnCpu() { --on_cpu; }

int64_t launches() { return launched; }

std::string type_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed),
                                                    std::free);
  if (failed != 0) throw models::ModelError("kernels: {} has no readable name", type.name());
  return name.get();
}

std::vector<std::string> kernel_functors(torch::ScalarType type) {
  return type == torch::kDouble ? names_for<double>() : names_for<float>();
}

std::vector<std::string> kernel_names(torch::ScalarType type) {
  auto names = kernel_functors(type);
  for (auto& name : names) name = "foretime::device::for_each<" + name + ">";
  return names;
}

namespace detail {

void check_items(int64_t items) {
  if (items > std::numeric_limits<int>::max())
    throw models::ModelError(
        "a batch of {} numbers in one tensor, expected fewer than 2^31: lower sampler.groups_per_batch or "
        "sampler.candidates_per_group",
        items);
}

void count_launch() { ++launched; }

#ifdef FORETIME_TORCH_CUDA

/// Returns the kernels for numbers of one type on one GPU, by the names of their functors.
static const std::map<std::string, KernelHandle>& kernels_of(int gpu, torch::ScalarType type) {
  static std::mutex mutex;
  static std::map<std::pair<int, torch::ScalarType>, std::map<std::string, KernelHandle>> known;
  const std::lock_guard lock(mutex);
  auto& kernels = known[{gpu, type}];
  if (!kernels.empty()) return kernels;
  const auto functors = kernel_functors(type);
  const auto handles = load_kernels(compile_kernels(kernel_source(), kernel_names(type), architecture_of(gpu)));
  for (size_t i = 0; i < functors.size(); ++i) kernels[functors[i]] = handles[i];
  return kernels;
}

/// Makes the GPU's context current in this thread. CUDA's runtime does so at a thread's first call; the driver's
/// functions, which launch the kernels, refuse a thread without one.
static void ensure_context(int gpu) {
  thread_local int current = -1;
  if (current != gpu) C10_CUDA_CHECK(cudaFree(nullptr));
  current = gpu;
}

void launch_on_gpu(torch::Device device, const std::string& type, const void* functor, int64_t items) {
  constexpr int64_t kThreads = 256;
  const c10::cuda::CUDAGuard guard(device);
  const int gpu = c10::cuda::current_device();
  ensure_context(gpu);
  const auto& kernels = kernels_of(gpu, type.find("double") == std::string::npos ? torch::kFloat : torch::kDouble);
  const auto kernel = kernels.find(type);
  if (kernel == kernels.end()) throw models::ModelError("kernels: {} is not in kernel_functors()", type);
  int count = items;
  void* arguments[] = {const_cast<void*>(functor), &count};
  launch(kernel->second, static_cast<unsigned>((items + kThreads - 1) / kThreads), kThreads,
         c10::cuda::getCurrentCUDAStream().stream(), arguments);
}

#else

void launch_on_gpu(torch::Device device, const std::string& type, const void*, int64_t) {
  throw models::ModelError("{} on {}: this build has no CUDA; expected the CPU", type, device.str());
}

#endif

}  // namespace detail

}  // namespace foretime::device
