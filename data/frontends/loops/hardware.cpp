#include "data/frontends/loops/hardware.h"

#include <algorithm>

namespace foretime::data {

Hardware hardware_of_target(std::string_view target, int64_t cores) {
  constexpr std::string_view kOption = "-mcpu=";
  Hardware hardware;
  hardware.cores = std::max<int64_t>(1, cores);
  hardware.vector_bytes = 16;
  hardware.vector_registers = 16;
  const size_t at = target.find(kOption);
  if (at == std::string_view::npos) return hardware;
  auto cpu = target.substr(at + kOption.size());
  cpu = cpu.substr(0, cpu.find(' '));
  const auto is = [&](std::string_view name) { return cpu.find(name) != std::string_view::npos; };
  if (is("avx512") || is("znver4") || is("znver5") || is("icelake") || is("cascadelake") || is("cooperlake") ||
      is("sapphirerapids") || is("rocketlake") || is("tigerlake") || is("knl") || is("knm")) {
    hardware.vector_bytes = 64;
    hardware.vector_registers = 32;
  } else if (is("avx2") || is("haswell") || is("broadwell") || is("skylake") || is("znver") || is("alderlake")) {
    hardware.vector_bytes = 32;
  } else if (is("cortex") || is("neoverse") || is("apple") || is("a64")) {
    hardware.vector_registers = 32;
  }
  return hardware;
}

}  // namespace foretime::data
