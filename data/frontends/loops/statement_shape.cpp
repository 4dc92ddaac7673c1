#include "data/frontends/loops/statement_shape.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/index_range.h"

namespace foretime::data {

namespace {

/// Returns the text behind an option of a TVM target; empty if the option is missing.
std::string_view option_of_target(std::string_view target, std::string_view option) {
  const size_t at = target.find(option);
  if (at == std::string_view::npos) return {};
  const auto value = target.substr(at + option.size());
  return value.substr(0, value.find(' '));
}

constexpr double kFloatBytes = 4.0;
constexpr double kUnrollThreshold = 300.0;  // instructions: LLVM's -unroll-threshold at -O3

bool vectorized(const ProgramLoop& loop) { return loop.kind == LoopKind::vectorized; }

}  // namespace

Hardware hardware_of_target(std::string_view target, int64_t cores) {
  Hardware hardware;
  hardware.cores = std::max<int64_t>(1, cores);
  hardware.vector_bytes = 16;
  hardware.vector_registers = 16;
  const auto cpu = option_of_target(target, "-mcpu="), features = option_of_target(target, "-mattr=");
  const auto is = [&](std::string_view name) { return cpu.find(name) != std::string_view::npos; };
  const auto has = [&](std::string_view feature) { return features.find(feature) != std::string_view::npos; };
  if (is("avx512") || is("znver4") || is("znver5") || is("icelake") || is("cascadelake") || is("cooperlake") ||
      is("sapphirerapids") || is("rocketlake") || is("tigerlake") || is("knl") || is("knm") || has("+avx512")) {
    hardware.vector_bytes = 64;
    hardware.vector_registers = 32;
  } else if (is("avx2") || is("haswell") || is("broadwell") || is("skylake") || is("znver") || is("alderlake") ||
             has("+avx")) {
    hardware.vector_bytes = 32;
  } else if (is("cortex") || is("neoverse") || is("apple") || is("a64")) {
    hardware.vector_registers = 32;
  }
  return hardware;
}

Hardware gpu_of_target(std::string_view target, const HardwareParameters& parameters) {
  const GpuArchitecture& architecture = architecture_of_target(target);
  Hardware hardware;
  hardware.gpu = architecture.limits;
  const auto set = [&](int64_t& limit, int64_t of_record, std::initializer_list<const char*> options) {
    if (of_record > 0) {
      limit = of_record;
      return true;
    }
    for (const auto* option : options) {
      const auto number = target_number(target, option);
      if (number && *number > 0) {
        limit = *number;
        return true;
      }
    }
    return false;
  };
  if (!set(hardware.gpu.threads_per_block, parameters.threads_per_block,
           {"-max_threads_per_block", "-max_num_threads"}))
    throw DataError(
        "target '{:.200}': how many threads a block may have is neither in it nor in the record's hardware parameters, "
        "expected -max_num_threads=1024 or the like, or a machine file that names the target",
        target);
  set(hardware.gpu.shared_bytes_per_block, parameters.shared_memory_per_block, {"-max_shared_memory_per_block"});
  set(hardware.gpu.warp_size, parameters.warp_size, {"-thread_warp_size"});
  hardware.gpu.warp_size = std::min<int64_t>(hardware.gpu.warp_size, kMostLanes);
  hardware.vector_bytes = 16;  // the widest load of a thread
  hardware.vector_registers = architecture.limits.registers_per_thread;
  hardware.cores = architecture.limits.multiprocessors;
  hardware.l1_bytes = architecture.l1_bytes;
  hardware.l2_bytes = hardware.l3_bytes = architecture.l2_bytes;
  const double multiprocessors = hardware.cores;
  hardware.multiply_add_gflop_s = 2.0 * architecture.lanes * architecture.ghz;
  hardware.all_multiply_add_gflop_s = multiprocessors * hardware.multiply_add_gflop_s;
  hardware.all_copy_gb_s = architecture.gb_s;
  hardware.copy_gb_s = 2.0 * architecture.gb_s / multiprocessors;  // a single one gets more than its share
  return hardware;
}

Hardware with_rates(Hardware hardware) {
  constexpr double kGuessedGhz = 2.5, kFlopOfLane = 4.0, kCopy = 10.0, kAllCopy = 80.0;
  const double cores = std::max<int64_t>(1, hardware.cores);
  const auto set = [](double& rate, double guess) {
    if (!(rate > 0.0)) rate = guess;
  };
  if (hardware.is_gpu()) {
    constexpr double kGpuGflop = 180.0, kGpuCopyOfOne = 11.0;  // rates for one multiprocessor of a V100
    set(hardware.multiply_add_gflop_s, kGpuGflop);
    set(hardware.all_multiply_add_gflop_s, cores * hardware.multiply_add_gflop_s);
    set(hardware.all_copy_gb_s, cores * kGpuCopyOfOne);
    set(hardware.copy_gb_s, 2.0 * hardware.all_copy_gb_s / cores);
    return hardware;
  }
  set(hardware.multiply_add_gflop_s, hardware.vector_bytes / 4.0 * kFlopOfLane * kGuessedGhz);
  set(hardware.all_multiply_add_gflop_s, cores * hardware.multiply_add_gflop_s);
  set(hardware.copy_gb_s, kCopy);
  set(hardware.all_copy_gb_s, std::max(hardware.copy_gb_s, std::min(cores * hardware.copy_gb_s, kAllCopy)));
  return hardware;
}

StatementShape::StatementShape(const LoopProgram& program, const ProgramStatement& of, const Hardware& hardware)
    : statement(of),
      loops(program.loops_of(of)),
      lanes(std::max(1.0, hardware.vector_bytes / kFloatBytes)),
      registers(hardware.vector_registers),
      iterations(program.iterations(of)),
      vector_depth(loops.size()) {
  for (const ProgramAccess& access : program.accesses_of(of)) all_steps.push_back(program.strides_of(of, access));
  for (size_t d = 0; d < loops.size(); ++d) {
    const double extent = loops[d].extent;
    if (runs_in_parallel(loops[d])) {
      parallel *= extent;
      is_parallel = true;
    }
    if (!is_parallel) outside_parallel *= extent;
    if (vectorized(loops[d])) {
      vector *= extent;
      vector_depth = d;
    }
  }
  if (!is_parallel) outside_parallel = 1.0;
  const double cores = hardware.cores;
  critical = is_parallel ? iterations / parallel * std::ceil(parallel / cores) : iterations;
  vector_instructions = std::ceil(vector / lanes);
  double counted = 0.0;
  for (size_t i = 0; i <= index_of(Arithmetic::select); ++i) counted += of.arithmetic[i];
  operations = std::max(operations, counted);
  const auto measure = [&](size_t first) {
    UnrolledBlock found;
    found.first = first;
    for (size_t d = first; d < loops.size(); ++d) {
      if (vectorized(loops[d])) continue;
      const double extent = loops[d].extent;
      found.copies *= extent;
      (all_steps[0][d].stride != 0 ? found.outputs : found.repeats) *= extent;
    }
    return found;
  };
  size_t first = loops.size();
  while (first > 0 && (vectorized(loops[first - 1]) || loops[first - 1].unrolled)) --first;
  block = measure(first);
  double instructions = block.copies * vector_instructions * (operations + all_steps.size());
  while (first > 0 && loops[first - 1].kind == LoopKind::serial &&
         instructions * loops[first - 1].extent <= kUnrollThreshold)
    instructions *= loops[--first].extent;
  widened = measure(first);
  const double l1 = hardware.l1_bytes;
  const std::array<double, kCaches> bytes = {l1 / 2, l1, static_cast<double>(hardware.l2_bytes),
                                             static_cast<double>(hardware.l3_bytes)};
  for (size_t c = 0; c < kCaches; ++c) {
    fitting[c] = loops.size();
    while (fitting[c] > 0 && line_bytes(fitting[c] - 1) <= bytes[c]) --fitting[c];
  }
}

double StatementShape::elements(size_t access, const UnrolledBlock& unrolled) const {
  return unrolled.first < loops.size() ? all_steps[access][unrolled.first].footprint : 1.0;
}

bool StatementShape::contiguous(size_t access) const {
  return has_vector() && std::abs(all_steps[access][vector_depth].stride) == 1;
}

double StatementShape::instructions(size_t access, const UnrolledBlock& unrolled) const {
  const double touched = elements(access, unrolled);
  return contiguous(access) ? touched / vector * vector_instructions : touched;
}

double StatementShape::invariant(size_t access, size_t depth) const {
  double product = 1.0;
  for (size_t d = depth; d-- > 0 && !runs_in_parallel(loops[d]) && all_steps[access][d].distinct <= 1.0;)
    product *= loops[d].extent;
  return product;
}

double StatementShape::line_bytes(size_t depth) const {
  double bytes = 0.0;
  for (const auto& access : all_steps) bytes += (depth < loops.size() ? access[depth].lines : 1.0) * kLineBytes;
  return bytes;
}

double StatementShape::iterations_of(size_t first, size_t last) const {
  double product = 1.0;
  for (size_t d = first; d < last; ++d) product *= loops[d].extent;
  return product;
}

double StatementShape::traffic(size_t access, size_t fitting) const {
  if (loops.empty()) return 0.0;
  const size_t nest = fitting > 0 ? fitting - 1 : 0;
  return all_steps[access][nest].lines * kLineBytes * iterations_of(0, nest);
}

}  // namespace foretime::data
