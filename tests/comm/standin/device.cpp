#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/types.h>

#include "comm/event_timer.h"
#include "comm/torch_stream.h"
#include "tests/comm/standin/streams.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* address, unsigned long size);
extern "C" void __tsan_write_range(void* address, unsigned long size);
#else
static void __tsan_read_range(void*, unsigned long) {}
static void __tsan_write_range(void*, unsigned long) {}
#endif

/// A device of LibTorch's whose memory is the host's: what LibTorch calls PrivateUse1. Operations that write to their
/// arguments go to the current stream, that is to its thread; the others run there as well, and the caller waits.
/// Backward runs on a thread of the autograd engine, as for a GPU.
namespace foretime::standin {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;

int current_gpu() {
  int gpu = 0;
  cudaGetDevice(&gpu);
  return gpu;
}

/// Memory goes back in the order of the stream that it was allocated on, as LibTorch's allocator gives it to later work
/// of that stream: what another stream still reads by then has been spoilt.
struct Block {
  void* data;
  size_t bytes;
  cudaStream_t stream;
};

void release(void* context) {
  const auto block = std::unique_ptr<Block>(static_cast<Block*>(context));
  const auto spoil = [data = block->data, bytes = block->bytes] {
    std::memset(data, 0xFF, bytes);
    std::free(data);
  };
  if (!enqueue(block->stream, spoil)) spoil();
}

// Not a c10::Allocator, whose virtual functions differ between LibTorch's versions: storages that never grow need none.
c10::DataPtr allocate(size_t bytes) {
  const int gpu = current_gpu();
  const auto size = std::max<size_t>(64, (bytes + 63) / 64 * 64);
  auto* block = new Block{std::aligned_alloc(64, size), size, compute_stream(gpu)};
  return {block->data, block, &release, c10::Device(kType, static_cast<c10::DeviceIndex>(gpu))};
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kType;
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, static_cast<c10::DeviceIndex>(current_gpu())}; }
  void setDevice(c10::Device device) const override { cudaSetDevice(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { cudaSetDevice(device.index()); }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    cudaGetDeviceCount(&count);
    return static_cast<c10::DeviceIndex>(count);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

bool here(const torch::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }

torch::Tensor make(c10::Storage storage, const caffe2::TypeMeta& type, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   int64_t offset) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                       c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
  made.unsafeGetTensorImpl()->set_storage_offset(offset);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

torch::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::optional<torch::ScalarType> type,
                            c10::optional<torch::Layout>, c10::optional<torch::Device> device, c10::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  const auto meta = c10::scalarTypeToTypeMeta(type.value_or(torch::kFloat));
  int64_t length = 1;
  for (size_t i = 0; i < sizes.size(); ++i) length = sizes[i] == 0 ? 0 : length + (sizes[i] - 1) * strides[i];
  for (const auto size : sizes) length = size == 0 ? 0 : length;
  const auto bytes = static_cast<size_t>(length) * meta.itemsize();
  return make(c10::Storage(c10::Storage::use_byte_size_t(), bytes, allocate(bytes), nullptr, false), meta, sizes,
              strides, 0);
}

torch::Tensor empty(c10::IntArrayRef sizes, c10::optional<torch::ScalarType> type, c10::optional<torch::Layout> layout,
                    c10::optional<torch::Device> device, c10::optional<bool> pin, c10::optional<c10::MemoryFormat>) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(1, sizes[i])) strides[i] = stride;
  return empty_strided(sizes, strides, type, layout, device, pin);
}

/// The same memory as a tensor of the host that owns nothing.
torch::Tensor on_host_of(const torch::Tensor& tensor) {
  return torch::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), torch::dtype(tensor.scalar_type()));
}

/// An operation's view of `base`, made of the alias' view.
torch::Tensor like(const torch::Tensor& view, const torch::Tensor& base) {
  const auto* from = static_cast<const char*>(base.storage().data());
  const auto offset = (static_cast<const char*>(view.data_ptr()) - from) / static_cast<int64_t>(view.element_size());
  return make(base.storage(), view.dtype(), view.sizes(), view.strides(), view.numel() == 0 ? 0 : offset);
}

/// ThreadSanitizer does not see into LibTorch: tells it what the operation reads or writes.
void show(const torch::Tensor& tensor, bool writes) {
  if (tensor.numel() == 0) return;
  if (tensor.dim() > 0 && !tensor.is_non_overlapping_and_dense() && tensor.size(0) > 1) {
    for (int64_t i = 0; i < tensor.size(0); ++i) show(tensor[i], writes);
    return;
  }
  if (!tensor.is_non_overlapping_and_dense()) return show(tensor.flatten()[0], writes);
  const auto bytes = tensor.nbytes();
  writes ? __tsan_write_range(tensor.data_ptr(), bytes) : __tsan_read_range(tensor.data_ptr(), bytes);
}

struct Seen {
  torch::Tensor tensor;
  bool writes;
};

/// What the stream's thread does for one operation.
void perform(const c10::OperatorHandle& op, torch::jit::Stack& stack, const std::vector<Seen>& seen) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const torch::NoGradGuard no_grad;
  for (const auto& each : seen) show(each.tensor, each.writes);
  op.callBoxed(&stack);
}

void on_device(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  const auto given = torch::jit::last(*stack, count).vec();
  torch::jit::Stack there;
  std::vector<Seen> seen;
  std::vector<torch::Tensor> written;
  torch::Tensor base;
  bool waits = false;
  int gpu = current_gpu();
  const auto over = [&](const torch::Tensor& tensor, bool writes) {
    if (writes) written.push_back(tensor);
    if (!here(tensor)) {
      if (!tensor.defined()) return tensor;
      waits |= writes || tensor.dim() > 0;
      if (writes || tensor.dim() > 0) return tensor;
      auto copy = tensor.clone();
      copy.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number());
      return copy;
    }
    gpu = tensor.device().index();
    if (!base.defined()) base = tensor;
    seen.push_back({on_host_of(tensor), writes});
    return on_host_of(tensor);
  };
  for (size_t i = 0; i < count; ++i) {
    const auto* info = schema.arguments()[i].alias_info();
    const bool writes = info != nullptr && info->isWrite();
    if (given[i].isTensor()) {
      there.emplace_back(over(given[i].toTensor(), writes));
    } else if (given[i].isTensorList()) {
      std::vector<torch::Tensor> list;
      for (const torch::Tensor& each : given[i].toTensorVector()) list.push_back(over(each, writes));
      there.emplace_back(list);
    } else if (given[i].isDevice()) {
      there.emplace_back(c10::Device(c10::kCPU));
    } else {
      there.push_back(given[i].deepcopy());  // lists are counted references too
    }
  }
  torch::jit::drop(*stack, count);

  const auto stream = compute_stream(gpu);
  if (!written.empty()) {
    enqueue(stream, [op, there = std::move(there), seen = std::move(seen)]() mutable { perform(op, there, seen); });
    if (waits) cudaStreamSynchronize(stream);
    for (size_t i = 0; i < schema.returns().size(); ++i) stack->emplace_back(written[i]);
    return;
  }
  const bool view = !schema.returns().empty() && schema.returns().front().alias_info() != nullptr;
  if (view) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    op.callBoxed(&there);
    for (auto& result : there) stack->emplace_back(like(result.toTensor(), base));
    return;
  }
  enqueue(stream, [&] { perform(op, there, seen); });
  cudaStreamSynchronize(stream);
  for (auto& result : there) {
    if (!result.isTensor() || !result.toTensor().defined()) {
      stack->push_back(result);
      continue;
    }
    const auto& value = result.toTensor();
    auto copy = empty_strided(value.sizes(), value.strides(), value.scalar_type(), {}, comm::torch_gpu(gpu), {});
    enqueue(stream, [to = on_host_of(copy), value] {
      show(to, true);
      at::AutoDispatchBelowADInplaceOrView no_autograd;
      torch::Tensor(to).copy_(value);
    });
    cudaStreamSynchronize(stream);
    stack->emplace_back(copy);
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_device>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  // LibTorch's own for all devices has a table of those that it knows.
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&on_device>());
}

}  // namespace
}  // namespace foretime::standin

/// In place of comm/torch_stream.cpp.
namespace foretime::comm {

bool torch_has_cuda() { return true; }
int torch_gpus() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}
c10::Device torch_gpu(int gpu) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(gpu)}; }
void* torch_current_stream(int gpu) { return standin::compute_stream(gpu); }
void torch_set_gpu(int gpu) { cudaSetDevice(gpu); }
void torch_on_stream(void* stream, int, const std::function<void()>& body) {
  const auto before = standin::set_compute_stream(static_cast<cudaStream_t>(stream));
  body();
  standin::set_compute_stream(before);
}
std::unique_ptr<StreamTimer> make_stream_timer(int gpu) { return std::make_unique<EventTimer>(gpu); }

}  // namespace foretime::comm
