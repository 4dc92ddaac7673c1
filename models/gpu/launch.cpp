#include "models/gpu/launch.h"

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

#include "models/gpu/join_kernels.h"
#include "models/gpu/nvrtc.h"
#include "models/gpu/step_kernels.h"
#include "models/gpu/top_nodes_kernels.h"
#include "models/graph/error.h"

namespace foretime::gpu {
namespace {

std::atomic<int> on_cpu = 0;
std::atomic<int64_t> launched = 0;

template <class... Bodies>
std::vector<std::string> names() {
  return {type_name(typeid(Bodies))...};
}

template <class T>
std::vector<std::string> names_for() {
  return names<Rows<CsrSum<T, 1>>, Rows<CsrSum<T, 4>>, Pieces<CsrSum<T, 1>>, Pieces<CsrSum<T, 4>>, Rows<CsrMax<T>>,
               Pieces<CsrMax<T>>, Rows<CsrMaxGradient<T>>, Pieces<CsrMaxGradient<T>>, Rows<WeightedSum<T, 1>>,
               Rows<WeightedSum<T, 4>>, Pieces<WeightedSum<T, 1>>, Pieces<WeightedSum<T, 4>>, EntryProducts<T, 1>,
               EntryProducts<T, 4>, Rows<EdgeSoftmaxSums<T>>, Pieces<EdgeSoftmaxSums<T>>, EdgeSoftmax<T>,
               Rows<EdgeSoftmaxShares<T>>, Pieces<EdgeSoftmaxShares<T>>, EdgeSoftmaxGradient<T>, ActivationGradient<T>,
               EntryRows, SquareSums<T>, SegmentNorms, GlobalNorm, AdamStep<T>, JoinWords<int>, JoinWords<long long>,
               KeptPointers<T>, ScorePlaces<T>, TieSpans, ChosenNodes, KeptPlaces, KeptEntryCounts<T>, KeptEntries<T>,
               DegreeRoots<T>, NormalizedValues<T>>();
}

}  // namespace

bool uses_gpu_kernels(torch::Device device) { return !device.is_cpu() || on_cpu > 0; }

GpuKernelsOnCpu::GpuKernelsOnCpu() { ++on_cpu; }
GpuKernelsOnCpu::~GpuKernelsOnCpu() { --on_cpu; }

int64_t launches() { return launched; }

std::string type_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed),
                                                    std::free);
  if (failed != 0) throw models::ModelError("GPU kernels: type {}: its name cannot be decoded", type.name());
  return name.get();
}

std::vector<std::string> kernel_functors(torch::ScalarType type) {
  return type == torch::kDouble ? names_for<double>() : names_for<float>();
}

std::vector<std::string> kernel_names(torch::ScalarType type) {
  auto names = kernel_functors(type);
  for (auto& name : names) name = "foretime::gpu::for_each<" + name + ">";
  return names;
}

namespace detail {

void check_items(int64_t items) {
  if (items > std::numeric_limits<int>::max())
    throw models::ModelError(
        "a batch of {} numbers in one tensor, expected fewer than 2^31: "
        "lower sampler.groups_per_batch or sampler.candidates_per_group",
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
  if (kernel == kernels.end()) throw models::ModelError("GPU kernels: {} is not in kernel_functors()", type);
  int count = items;
  void* arguments[] = {const_cast<void*>(functor), &count};
  launch(kernel->second, static_cast<unsigned>((items + kThreads - 1) / kThreads), kThreads,
         c10::cuda::getCurrentCUDAStream().stream(), arguments);
}

#else

void launch_on_gpu(torch::Device device, const std::string& type, const void*, int64_t) {
  throw models::ModelError("GPU kernel {} on device {}: this build has no CUDA, expected device cpu", type,
                           device.str());
}

#endif

}  // namespace detail

}  // namespace foretime::gpu
