#include "data/frontends/loops/gpu_columns.h"

#include <cstdlib>

#include "base/index_range.h"
#include "data/frontends/loops/loop_columns.h"

namespace foretime::data {
namespace {

constexpr double kGhz = 1.4;          // clock of shared memory
constexpr double kLeastOfGpu = 1e-6;  // nanoseconds of an iteration, of which thousands run at once

/// Threads of a block that differ in what they do in this statement.
double own_threads(const StatementShape& shape) {
  double product = 1.0;
  for (const ProgramLoop& loop : shape.loops)
    if (loop.axis == ThreadAxis::thread) product *= loop.extent;
  return product;
}

}  // namespace

GpuTraffic gpu_traffic(const StatementShape& shape, const LoopProgram& program, const GpuShape& all,
                       int64_t warp_size) {
  GpuTraffic traffic;
  const ProgramStatement& statement = shape.statement;
  const double repeats = thread_iterations(program, statement);
  const auto accesses = program.accesses_of(statement);
  const int64_t threads = program.kernels[statement.kernel].block_threads();
  const double lanes = std::min(threads, warp_size);
  for (size_t a = 0; a < accesses.size(); ++a) {
    const ProgramBuffer& buffer = program.buffers[accesses[a].buffer];
    const WarpAccess& touched = all.accesses[statement.first_access + a];
    const double each = thread_accesses(program, statement, accesses[a]) / repeats;
    if (a > 0 || statement.update) traffic.reads[index_of(buffer.scope)] += 1.0;
    if (buffer.scope == BufferScope::global) {
      traffic.sectors += each * touched.sectors;
      traffic.global_bytes += each * touched.sectors * kSectorBytes / lanes;
      traffic.waste =
          std::max(traffic.waste, touched.sectors * kSectorBytes / (touched.elements * buffer.element_bytes));
    } else if (buffer.scope == BufferScope::shared) {
      traffic.shared_cycles += each * touched.cycles / lanes;
      traffic.ways = std::max(traffic.ways, touched.ways);
    }
  }
  return traffic;
}

void put_gpu_statement(const StatementShape& shape, const LoopProgram& program, const KernelShape& kernel,
                       const GpuLimits& gpu, const GpuTraffic& traffic, ColumnWriter& out) {
  const double multiprocessors = std::max<int64_t>(1, gpu.multiprocessors);
  const double repeats = thread_iterations(program, shape.statement);
  const BufferScope scope = program.buffers[program.accesses_of(shape.statement)[0].buffer].scope;
  bool across_threads = false;
  for (const ProgramLoop& loop : shape.loops)
    across_threads |= loop.axis == ThreadAxis::thread && loop.reduction && loop.extent > 1;
  out.put("is_gpu", 1.0);
  // The grid.
  out.put("blocks", ratio(kernel.blocks));
  out.put("threads", ratio(kernel.threads));
  out.put("virtual_threads", ratio(kernel.virtual_threads));
  out.put("warps", ratio(kernel.warps));
  out.put("full_lanes", kernel.threads / (kernel.warps * gpu.warp_size));
  out.put("idle_threads", ratio(kernel.threads / own_threads(shape)));
  // What a block takes.
  out.put("shared_bytes", std::log2(1.0 + kernel.shared_bytes));
  out.put("shared_share", kernel.shared_bytes / gpu.shared_bytes_per_block);
  out.put("local_bytes", std::log2(1.0 + kernel.local_bytes));
  out.put("registers", ratio(std::max(1.0, kernel.registers)));
  out.put("registers_over", log_excess(std::max(1.0, kernel.registers), gpu.registers_per_thread));
  out.put("fits", kernel.fits);
  out.put("resident", ratio(kernel.resident));
  out.put("occupancy", kernel.occupancy);
  out.put("limited_by_threads", kernel.thread_limit <= kernel.resident);
  out.put("limited_by_blocks", kernel.block_limit <= kernel.resident);
  out.put("limited_by_shared", kernel.shared_limit <= kernel.resident);
  out.put("limited_by_registers", kernel.register_limit <= kernel.resident);
  out.put("waves", std::log2(1.0 + kernel.waves));
  out.put("tail", kernel.tail);
  out.put("busy", std::min(1.0, kernel.blocks / multiprocessors));
  // What a thread does.
  out.put("thread_iterations", ratio(repeats));
  out.put("thread_operations", ratio(repeats * shape.operations));
  out.put("kernel_share", ratio(repeats / kernel.iterations));
  out.put("kernel_operations", ratio(kernel.operations));
  out.put("operations_of_byte", ratio(kernel.operations / std::max(1.0, kernel.global_bytes)));
  out.put("operations_of_cycle", ratio(kernel.operations / std::max(1.0, kernel.shared_cycles)));
  out.put("independent", ratio(shape.block.outputs * kernel.virtual_threads));
  out.put("across_threads", across_threads);
  // What it touches.
  constexpr std::array<const char*, kBufferScopes> kScopes = {"global", "shared", "local"};
  for (size_t s = 0; s < kScopes.size(); ++s) out.put("writes", kScopes[s], scope == static_cast<BufferScope>(s));
  for (size_t s = 0; s < kScopes.size(); ++s) out.put("reads", kScopes[s], traffic.reads[s]);
  out.put("sectors", std::log2(1.0 + traffic.sectors));
  out.put("global_bytes", std::log2(1.0 + traffic.global_bytes));
  out.put("waste", ratio(traffic.waste));
  out.put("shared_cycles", std::log2(1.0 + traffic.shared_cycles));
  out.put("conflicts", ratio(traffic.ways));
}

void put_gpu_access(const StatementShape& shape, size_t a, const LoopProgram& program, const KernelShape& kernel,
                    const WarpAccess& touched, ColumnWriter& out) {
  const ProgramAccess& access = program.accesses_of(shape.statement)[a];
  const ProgramBuffer& buffer = program.buffers[access.buffer];
  const VectorLoop vector = vector_loop(program, shape.statement);
  const bool moves = vector.extent > 1 && std::abs(shape.steps(a)[vector.depth].stride) == 1;
  const double at_once = static_cast<double>(moves ? vector.extent : 1) * buffer.element_bytes;
  int64_t stride = 0;
  if (!program.lanes.empty()) {
    const auto lanes = program.lanes_of(shape.statement, access, 2);
    stride = lanes.size() > 1 ? std::abs(lanes[1] - lanes[0]) : 0;
  }
  size_t inside = 0;  // the first loop of a block's own
  while (inside < shape.loop_count() && shape.loops[inside].axis == ThreadAxis::block) ++inside;
  const double block_elements = inside < shape.loop_count() ? std::max(1.0, shape.steps(a)[inside].footprint) : 1.0;
  out.put("is_gpu_access", 1.0);
  out.put("global", buffer.scope == BufferScope::global);
  out.put("shared", buffer.scope == BufferScope::shared);
  out.put("local", buffer.scope == BufferScope::local);
  out.put("thread_bytes", ratio(at_once));
  out.put("vectorized", moves);
  out.put("sectors", ratio(touched.sectors));
  out.put("waste", ratio(touched.sectors * kSectorBytes / (touched.elements * buffer.element_bytes)));
  out.put("lines", ratio(touched.lines));
  out.put("broadcast", ratio(touched.bytes / (touched.elements * buffer.element_bytes)));
  out.put("ways", ratio(touched.ways));
  out.put("lane_stride", std::min(12.0, std::log2(1.0 + stride)));
  out.put("lanes_alike", stride == 0);
  out.put("lanes_adjacent", stride == (moves ? vector.extent : 1));
  out.put("accesses",
          ratio(thread_accesses(program, shape.statement, access) / thread_iterations(program, shape.statement)));
  out.put("block_bytes", std::log2(1.0 + block_elements * buffer.element_bytes));
  out.put("refetched",
          buffer.scope == BufferScope::global ? ratio(block_elements * kernel.blocks / buffer.elements) : 0.0);
}

double gpu_roofline(const StatementShape& shape, const LoopProgram& program, const GpuTraffic& traffic,
                    const Hardware& hardware) {
  const auto& counts = shape.statement.arithmetic;
  double instructions = 0.0;
  for (const int32_t count : counts) instructions += count;
  instructions -= std::min(counts[index_of(Arithmetic::add)],
                           counts[index_of(Arithmetic::multiply)]);  // fused
  const double blocks = program.kernels[shape.statement.kernel].blocks;
  const double busy = std::max(1.0, std::min<double>(blocks, hardware.gpu.multiprocessors));
  const double bandwidth = std::min(hardware.copy_gb_s, hardware.all_copy_gb_s / busy);
  return std::max({kLeastOfGpu, instructions / (hardware.multiply_add_gflop_s / 2.0), traffic.global_bytes / bandwidth,
                   traffic.shared_cycles / kGhz});
}

void set_gpu_statement_columns(const StatementShape& shape, const LoopProgram& program, const GpuShape& all,
                               const Hardware& hardware, float* row) {
  ColumnWriter out(row + LoopColumns::gpu);
  const GpuTraffic traffic = gpu_traffic(shape, program, all, hardware.gpu.warp_size);
  put_gpu_statement(shape, program, all.kernels[shape.statement.kernel], hardware.gpu, traffic, out);
  row[LoopColumns::roofline] = std::log(gpu_roofline(shape, program, traffic, with_rates(hardware)));
}

void set_gpu_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program, const GpuShape& all,
                            float* row) {
  ColumnWriter out(row + LoopColumns::gpu_access);
  put_gpu_access(shape, access, program, all.kernels[shape.statement.kernel],
                 all.accesses[shape.statement.first_access + access], out);
}

}  // namespace foretime::data
