#include "data/frontends/loops/kernel_shape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace foretime::data {
namespace {

constexpr double kRegisterUnit = 8.0;  // a thread's registers are given out in eights

/// Returns whether one thread runs all iterations of a loop.
bool is_of_thread(const ProgramLoop& loop) {
  return loop.axis == ThreadAxis::none || loop.axis == ThreadAxis::virtual_thread;
}

constexpr int64_t kFarthestStride = int64_t{1} << 40;  // strides, elements: farther ones share no sector either

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// Positions of a warp's elements: all of them fit.
struct Positions {
  std::array<int64_t, kMostLanes* static_cast<size_t>(kMostVector)> values;
  size_t count = 0;

  void add(int64_t value) { values[count++] = value; }
  auto begin() { return values.begin(); }
  auto end() { return values.begin() + count; }
  void sort_and_merge() {
    if (!std::is_sorted(begin(), end())) std::sort(begin(), end());
    count = std::unique(begin(), end()) - begin();
  }
};

/// Pieces of `unit` bytes that elements at sorted positions touch.
double pieces(std::span<const int64_t> sorted, int64_t element_bytes, int64_t unit) {
  int64_t count = 0, last = 0;
  for (const int64_t position : sorted) {
    const int64_t first_byte = position * element_bytes;
    int64_t first = floor_divide(first_byte, unit);
    const int64_t final = floor_divide(first_byte + element_bytes - 1, unit);
    if (count > 0) first = std::max(first, last + 1);
    if (final < first) continue;
    count += final - first + 1;
    last = final;
  }
  return count;
}

/// Cycles of one request: the most different words in one bank.
int64_t cycles(std::span<const int64_t> sorted_words) {
  std::array<int64_t, kBanks> in_bank{};
  int64_t most = 1;
  for (const int64_t word : sorted_words) {
    auto& count = in_bank[word - floor_divide(word, kBanks) * kBanks];
    most = std::max(most, ++count);
  }
  return most;
}

}  // namespace

WarpAccess warp_access(std::span<const int64_t> lanes, int64_t vector, int64_t stride, int64_t element_bytes) {
  lanes = lanes.first(std::min(lanes.size(), kMostLanes));
  vector = std::clamp<int64_t>(vector, 1, kMostVector);
  stride = std::clamp(stride, -kFarthestStride, kFarthestStride);
  Positions all;
  for (const int64_t lane : lanes)
    for (int64_t v = 0; v < vector; ++v) all.add(lane + v * stride);
  WarpAccess result;
  result.bytes = static_cast<double>(all.count) * element_bytes;
  all.sort_and_merge();
  const std::span<const int64_t> merged(all.values.data(), all.count);
  result.elements = all.count;
  result.sectors = pieces(merged, element_bytes, kSectorBytes);
  result.lines = pieces(merged, element_bytes, kGpuLineBytes);

  // A thread's neighbouring elements are one access where they make 8 or 16 bytes; otherwise each is its own.
  const bool wide = stride == 1 && vector * element_bytes <= 16;
  const int64_t at_once = wide ? vector : 1;
  const int64_t thread_words = std::max<int64_t>(1, at_once * element_bytes / kBankBytes);
  const size_t group = std::max<int64_t>(1, kBanks / thread_words);
  int64_t requests = 0, sum = 0;
  Positions words;
  for (int64_t v = 0; v < vector; v += at_once) {
    for (size_t first = 0; first < lanes.size(); first += group) {
      words.count = 0;
      for (size_t lane = first; lane < std::min(lanes.size(), first + group); ++lane) {
        const int64_t byte = (lanes[lane] + v * stride) * element_bytes;
        for (int64_t word = 0; word < thread_words && words.count < words.values.size(); ++word)
          words.add(floor_divide(byte, kBankBytes) + word);
      }
      words.sort_and_merge();
      sum += cycles({words.values.data(), words.count});
      ++requests;
    }
  }
  result.cycles = sum;
  result.ways = result.cycles / requests;
  return result;
}

KernelShape::KernelShape(const LoopProgram& program, std::span<const WarpAccess> accesses, size_t kernel,
                         const GpuLimits& gpu) {
  const ProgramKernel& of = program.kernels[kernel];
  blocks = of.blocks;
  threads = of.block_threads();
  virtual_threads = of.virtual_threads;
  const double warp = gpu.warp_size;
  warps = std::ceil(threads / warp);
  const double lanes = std::max(1.0, std::min(threads, warp));
  std::vector<bool> counted(program.buffers.size());
  iterations = operations = 0.0;
  for (const ProgramStatement& statement : program.statements) {
    if (std::cmp_not_equal(statement.kernel, kernel)) continue;
    const double repeats = thread_iterations(program, statement);
    iterations += repeats;
    for (const int32_t count : statement.arithmetic) operations += repeats * count;
    for (const ProgramAccess& access : program.accesses_of(statement)) {
      const WarpAccess& touched = accesses[&access - program.accesses.data()];
      const double times = thread_accesses(program, statement, access) / lanes;
      const BufferScope scope = program.buffers[access.buffer].scope;
      if (scope == BufferScope::global) global_bytes += times * touched.sectors * kSectorBytes;
      if (scope == BufferScope::shared) shared_cycles += times * touched.cycles;
    }
    const size_t number = program.accesses_of(statement)[0].buffer;
    if (counted[number]) continue;
    counted[number] = true;
    const ProgramBuffer& buffer = program.buffers[number];
    const double bytes = static_cast<double>(buffer.elements) * buffer.element_bytes;
    if (buffer.scope == BufferScope::shared) shared_bytes += bytes;
    if (buffer.scope == BufferScope::local) local_bytes += bytes * virtual_threads;
  }
  iterations = std::max(1.0, iterations);
  operations = std::max(1.0, operations);
  registers = local_bytes / 4.0 + kOtherRegisters;
  fits = threads <= gpu.threads_per_block && shared_bytes <= gpu.shared_bytes_per_block;
  const double multiprocessors = std::max<int64_t>(1, gpu.multiprocessors);
  const double most_warps = std::max(1.0, std::floor(gpu.threads_per_multiprocessor / warp));
  const double given = std::min(std::ceil(registers / kRegisterUnit) * kRegisterUnit,
                                std::ceil(gpu.registers_per_thread / kRegisterUnit) * kRegisterUnit);
  thread_limit = std::floor(most_warps / warps);
  block_limit = gpu.blocks_per_multiprocessor;
  shared_limit = shared_bytes > 0.0 ? std::floor(gpu.shared_bytes_per_multiprocessor / shared_bytes) : kUnlimited;
  register_limit = std::floor(gpu.registers_per_multiprocessor / (given * warp * warps));
  resident = std::max(1.0, std::min({thread_limit, block_limit, shared_limit, register_limit}));
  occupancy = std::min(1.0, resident * warps / most_warps);
  waves = std::ceil(blocks / (multiprocessors * resident));
  tail = blocks / (waves * multiprocessors * resident);
}

VectorLoop vector_loop(const LoopProgram& program, const ProgramStatement& statement) {
  const auto loops = program.loops_of(statement);
  VectorLoop found{loops.size(), 1};
  for (size_t d = 0; d < loops.size(); ++d)
    if (loops[d].kind == LoopKind::vectorized) found = {d, loops[d].extent};
  return found;
}

double thread_iterations(const LoopProgram& program, const ProgramStatement& statement) {
  double product = 1.0;
  for (const ProgramLoop& loop : program.loops_of(statement))
    if (is_of_thread(loop)) product *= loop.extent;
  return product;
}

double thread_accesses(const LoopProgram& program, const ProgramStatement& statement, const ProgramAccess& access) {
  const auto loops = program.loops_of(statement);
  const auto steps = program.strides_of(statement, access);
  double product = 1.0;
  const bool is_store = &access == &program.accesses[statement.first_access];
  bool moved = is_store && !statement.update;
  for (size_t d = loops.size(); d-- > 0;) {
    if (loops[d].kind == LoopKind::vectorized && std::abs(steps[d].stride) == 1) {
      moved = true;
      continue;
    }
    if (!is_of_thread(loops[d])) continue;
    moved |= steps[d].distinct > 1.0;
    if (moved) product *= loops[d].extent;
  }
  return product;
}

GpuShape::GpuShape(const LoopProgram& program, const GpuLimits& gpu) {
  if (!program.is_gpu()) return;
  accesses.resize(program.accesses.size());
  for (const ProgramStatement& statement : program.statements) {
    const VectorLoop vector = vector_loop(program, statement);
    for (const ProgramAccess& access : program.accesses_of(statement)) {
      const ProgramBuffer& buffer = program.buffers[access.buffer];
      const int64_t stride =
          vector.extent > 1 ? program.strides_of(statement, access)[vector.depth].stride : int64_t{0};
      accesses[&access - program.accesses.data()] =
          warp_access(program.lanes_of(statement, access, gpu.warp_size), stride == 0 ? 1 : vector.extent, stride,
                      buffer.element_bytes);
    }
  }
  for (size_t kernel = 0; kernel < program.kernels.size(); ++kernel)
    kernels.emplace_back(program, accesses, kernel, gpu);
}

}  // namespace foretime::data
