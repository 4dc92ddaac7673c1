#include "jobs/agent/gpus.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <sstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/no_copy.h"
#include "base/numbers.h"
#include "base/read_input.h"
#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

/// The part of NVML that lists devices. Its functions are looked up by name, because machines without GPUs lack it.
class Nvml : NoCopy {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    if (const auto init = find<int()>("nvmlInit_v2")) started_ = init() == 0;
  }
  ~Nvml() {
    if (!started_) return;
    if (const auto shutdown = find<int()>("nvmlShutdown")) shutdown();
  }

  /// Returns the GPUs; empty if NVML is missing or does not answer.
  std::optional<std::vector<Gpu>> list() const {
    const auto count = find<int(unsigned*)>("nvmlDeviceGetCount_v2");
    const auto device = find<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    const auto most_mig = find<int(Device, unsigned*)>("nvmlDeviceGetMaxMigDeviceCount");
    const auto mig_device = find<int(Device, unsigned, Device*)>("nvmlDeviceGetMigDeviceHandleByIndex");
    unsigned number = 0;
    if (!started_ || count == nullptr || device == nullptr || count(&number) != 0) return std::nullopt;
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < number; ++i) {
      auto& gpu = gpus.emplace_back(Gpu{.index = static_cast<int>(i), .uuid = {}});
      Device handle = nullptr;
      if (device(i, &handle) != 0) continue;  // broken, or in another user's container: only the index is known
      gpu.uuid = uuid_of(handle);
      unsigned parts = 0;
      if (most_mig == nullptr || mig_device == nullptr || most_mig(handle, &parts) != 0) continue;
      for (unsigned m = 0; m < parts; ++m) {
        Device part = nullptr;
        if (mig_device(handle, m, &part) == 0) gpu.mig.push_back(uuid_of(part));
      }
    }
    return gpus;
  }

 private:
  using Device = void*;

  template <class Function>
  Function* find(const char* name) const {
    return library_ ? reinterpret_cast<Function*>(dlsym(library_.get(), name)) : nullptr;
  }

  std::string uuid_of(Device device) const {
    std::array<char, 96> text{};
    const auto uuid = find<int(Device, char*, unsigned)>("nvmlDeviceGetUUID");
    return uuid != nullptr && uuid(device, text.data(), text.size()) == 0 ? std::string(text.data()) : "";
  }

  std::unique_ptr<void, CloseLibrary> library_;
  bool started_ = false;
};

/// The driver's own list, in the order of PCI addresses.
std::vector<Gpu> gpus_of_proc() {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", failure)) folders.push_back(entry.path());
  std::ranges::sort(folders);
  std::vector<Gpu> gpus;
  for (const auto& folder : folders) {
    auto& gpu = gpus.emplace_back(Gpu{.index = static_cast<int>(gpus.size()), .uuid = {}});
    std::istringstream lines(kernel_text(folder / "information"));
    for (std::string line; std::getline(lines, line);)
      if (const auto at = line.find("GPU-"); line.starts_with("GPU UUID") && at != std::string::npos)
        gpu.uuid = trimmed(line.substr(at));
  }
  return gpus;
}

std::string text_of(const std::vector<Gpu>& gpus) {
  if (gpus.empty()) return "this machine has no NVIDIA GPU, as far as its driver tells";
  std::vector<std::string> names;
  for (const auto& gpu : gpus) {
    names.push_back(gpu.uuid.empty() ? fmt::format("{}", gpu.index) : fmt::format("{} ({})", gpu.index, gpu.uuid));
    names.insert(names.end(), gpu.mig.begin(), gpu.mig.end());
  }
  return fmt::format("this machine has {}", fmt::join(names, ", "));
}

/// Returns the number of devices that an id may mean.
int64_t count_named(const std::string& id, const std::vector<Gpu>& gpus) {
  if (const auto index = parse_number<int>(id)) return std::ranges::count(gpus, *index, &Gpu::index);
  if (!id.starts_with("GPU-") && !id.starts_with("MIG-")) return 0;
  int64_t count = 0;
  for (const auto& gpu : gpus) {
    count += gpu.uuid.starts_with(id) ? 1 : 0;
    count += std::ranges::count_if(gpu.mig, [&](const std::string& uuid) { return uuid.starts_with(id); });
  }
  return count;
}

}  // namespace

std::vector<Gpu> find_gpus() {
  auto gpus = Nvml().list();
  return gpus ? *std::move(gpus) : gpus_of_proc();
}

void check_gpus(const std::vector<std::string>& ids, const std::vector<Gpu>& gpus) {
  for (const auto& id : ids) {
    const auto named = count_named(id, gpus);
    if (named == 1) continue;
    throw JobsError("--gpus: found {}, which names {}; {}; --assume-gpus skips this check", printable(id),
                    named == 0 ? "no GPU" : fmt::format("{} GPUs", named), text_of(gpus));
  }
}

}  // namespace foretime::jobs
