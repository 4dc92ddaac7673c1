#include "models/autograd/autocast.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "models/graph/error.h"

namespace foretime::models {
namespace {

namespace autocast = at::autocast;

// 2.4 asks for the device by an argument, before by the function's name.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)

bool enabled(torch::DeviceType device) { return autocast::is_autocast_enabled(device); }
void enable(torch::DeviceType device, bool on) { autocast::set_autocast_enabled(device, on); }
torch::ScalarType type_of(torch::DeviceType device) { return autocast::get_autocast_dtype(device); }
void set_type(torch::DeviceType device, torch::ScalarType type) { autocast::set_autocast_dtype(device, type); }

#else

bool enabled(torch::DeviceType device) {
  return device == torch::kCUDA ? autocast::is_enabled() : autocast::is_cpu_enabled();
}
void enable(torch::DeviceType device, bool on) {
  device == torch::kCUDA ? autocast::set_enabled(on) : autocast::set_cpu_enabled(on);
}
torch::ScalarType type_of(torch::DeviceType device) {
  return device == torch::kCUDA ? autocast::get_autocast_gpu_dtype() : autocast::get_autocast_cpu_dtype();
}
void set_type(torch::DeviceType device, torch::ScalarType type) {
  device == torch::kCUDA ? autocast::set_autocast_gpu_dtype(type) : autocast::set_autocast_cpu_dtype(type);
}

#endif

torch::DeviceType known(torch::Device device) {
  if (device.is_cpu() || device.is_cuda()) return device.type();
  throw ModelError("mixed precision on device {}, expected cpu or cuda", device.str());
}

}  // namespace

Autocast::Autocast(torch::Device device, bool mixed)
    : device_(known(device)), was_enabled_(enabled(device_)), type_before_(type_of(device_)) {
  autocast::increment_nesting();
  set_type(device_, torch::kBFloat16);
  enable(device_, mixed);
}

Autocast::~Autocast() {
  // Weights are cast once a forward pass and kept; after the optimiser's step those copies are old.
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  enable(device_, was_enabled_);
  set_type(device_, type_before_);
}

Tf32Products::Tf32Products(bool allowed) : before_(at::globalContext().allowTF32CuBLAS()) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
}

Tf32Products::~Tf32Products() { at::globalContext().setAllowTF32CuBLAS(before_); }

}  // namespace foretime::models
