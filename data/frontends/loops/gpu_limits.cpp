#include "data/frontends/loops/gpu_limits.h"

#include <algorithm>
#include <array>

#include "base/numbers.h"

namespace foretime::data {
namespace {

constexpr int64_t kKib = 1 << 10;

/// multiprocessors, warp, threads and shared memory of a block, threads, blocks and registers of a multiprocessor,
/// registers of a thread, shared memory of a multiprocessor; lanes, GHz, GB/s, first- and second-level cache.
constexpr auto kArchitectures = std::to_array<GpuArchitecture>({
    {"sm_35", {15, 32, 1024, 48 * kKib, 2048, 16, 65536, 255, 48 * kKib}, 192, 0.9, 288, 48 * kKib, 1536 * kKib},
    {"sm_37", {13, 32, 1024, 48 * kKib, 2048, 16, 131072, 255, 112 * kKib}, 192, 0.8, 240, 48 * kKib, 1536 * kKib},
    {"sm_52", {24, 32, 1024, 48 * kKib, 2048, 32, 65536, 255, 96 * kKib}, 128, 1.1, 336, 48 * kKib, 3072 * kKib},
    {"sm_60", {56, 32, 1024, 48 * kKib, 2048, 32, 65536, 255, 64 * kKib}, 64, 1.3, 732, 24 * kKib, 4096 * kKib},
    {"sm_61", {28, 32, 1024, 48 * kKib, 2048, 32, 65536, 255, 96 * kKib}, 128, 1.6, 484, 48 * kKib, 2816 * kKib},
    {"sm_70", {80, 32, 1024, 48 * kKib, 2048, 32, 65536, 255, 96 * kKib}, 64, 1.5, 900, 128 * kKib, 6144 * kKib},
    {"sm_75", {68, 32, 1024, 48 * kKib, 1024, 16, 65536, 255, 64 * kKib}, 64, 1.5, 616, 96 * kKib, 5632 * kKib},
    {"sm_80", {108, 32, 1024, 48 * kKib, 2048, 32, 65536, 255, 164 * kKib}, 64, 1.4, 1555, 192 * kKib, 40960 * kKib},
    {"sm_86", {82, 32, 1024, 48 * kKib, 1536, 16, 65536, 255, 100 * kKib}, 128, 1.7, 936, 128 * kKib, 6144 * kKib},
    {"sm_89", {128, 32, 1024, 48 * kKib, 1536, 24, 65536, 255, 100 * kKib}, 128, 2.5, 1008, 128 * kKib, 73728 * kKib},
    {"sm_90", {132, 32, 1024, 48 * kKib, 2048, 32, 65536, 255, 228 * kKib}, 128, 1.8, 3350, 256 * kKib, 51200 * kKib},
    {"gfx906", {60, 64, 1024, 64 * kKib, 2560, 40, 65536, 256, 64 * kKib}, 64, 1.7, 1024, 16 * kKib, 4096 * kKib},
});
constexpr std::string_view kCommon = "sm_70", kCommonOfRocm = "gfx906";

const GpuArchitecture* architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &GpuArchitecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

/// Returns the text behind `option=`, which must be a separate word.
std::string_view option_of(std::string_view target, std::string_view option) {
  for (size_t at = target.find(option); at != std::string_view::npos; at = target.find(option, at + 1)) {
    const size_t end = at + option.size();
    if ((at > 0 && target[at - 1] != ' ') || end >= target.size() || target[end] != '=') continue;
    const auto value = target.substr(end + 1);
    return value.substr(0, value.find(' '));
  }
  return {};
}

}  // namespace

bool is_gpu_target(std::string_view target) {
  constexpr std::array<std::string_view, 6> kKinds = {"cuda", "rocm", "opencl", "metal", "vulkan", "webgpu"};
  if (std::ranges::find(kKinds, target.substr(0, target.find(' '))) != kKinds.end()) return true;
  auto keys = option_of(target, "-keys");
  while (!keys.empty()) {
    const size_t comma = keys.find(',');
    if (keys.substr(0, comma) == "gpu") return true;
    if (comma == std::string_view::npos) break;
    keys.remove_prefix(comma + 1);
  }
  return false;
}

const GpuArchitecture* named_architecture(std::string_view target) {
  for (const auto* option : {"-arch", "-mcpu"})
    if (const auto* named = architecture(option_of(target, option))) return named;
  return nullptr;
}

const GpuArchitecture& architecture_of_target(std::string_view target) {
  if (const auto* named = named_architecture(target)) return *named;
  return *architecture(target.starts_with("rocm") ? kCommonOfRocm : kCommon);
}

std::optional<int64_t> target_number(std::string_view target, std::string_view option) {
  return parse_number<int64_t>(option_of(target, option));
}

}  // namespace foretime::data
