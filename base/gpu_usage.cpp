#include "base/gpu_usage.h"

#include <array>

#include <dlfcn.h>

namespace foretime {
namespace {

// The part of NVIDIA's management library (nvml.h) that is used here: it comes with the driver, and a program that is
// built without CUDA may run with it.
struct NvmlUtilization {
  unsigned gpu, memory;
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
using NvmlDevice = void*;

struct Nvml {
  int (*bus_of)(char* bus, int size, int index) = nullptr;  // cudaDeviceGetPCIBusId, of the CUDA in this process
  int (*handle_of)(const char* bus, NvmlDevice* device) = nullptr;
  int (*utilization)(NvmlDevice device, NvmlUtilization* use) = nullptr;
  int (*memory)(NvmlDevice device, NvmlMemory* use) = nullptr;

  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
  Nvml() {
    find(RTLD_DEFAULT, "cudaDeviceGetPCIBusId", bus_of);
    void* library = bus_of == nullptr ? nullptr : dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    int (*start)() = nullptr;
    find(library, "nvmlInit_v2", start);
    if (start == nullptr || start() != 0) return;
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", handle_of);
    find(library, "nvmlDeviceGetUtilizationRates", utilization);
    find(library, "nvmlDeviceGetMemoryInfo", memory);
  }
};

constexpr double kBytesOfMib = 1 << 20;

}  // namespace

std::optional<GpuUsage> gpu_usage(int index) {
  static const Nvml nvml;
  if (nvml.handle_of == nullptr || nvml.utilization == nullptr || nvml.memory == nullptr) return std::nullopt;
  std::array<char, 64> bus{};
  NvmlDevice device = nullptr;
  NvmlUtilization use{};
  NvmlMemory memory{};
  if (nvml.bus_of(bus.data(), bus.size(), index) != 0 || nvml.handle_of(bus.data(), &device) != 0 ||
      nvml.utilization(device, &use) != 0 || nvml.memory(device, &memory) != 0)
    return std::nullopt;
  return GpuUsage{static_cast<double>(use.gpu), memory.used / kBytesOfMib};
}

}  // namespace foretime
