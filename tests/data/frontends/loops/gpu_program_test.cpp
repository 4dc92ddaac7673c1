/// Programs for GPUs: kernels, memory, what warps touch, and columns, on two small programs by hand; and fast paths
/// against slow ones.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "data/frontends/loops/gpu_columns.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/nest_program.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::data {
namespace {

using testing::convolution;
using testing::matmul;
using testing::replayed;
using testing::source_dir;

constexpr const char* kVolta = "cuda -keys=cuda,gpu -arch=sm_70 -max_num_threads=1024 -thread_warp_size=32";

LoopProgram program_of(LoopNest nest) {
  LoopProgram program;
  NestProgram().read(nest, TuningRecord(), program);
  return program;
}

/// How C = A B, rows × columns × inner, is divided among blocks, threads and iterations, as auto_scheduler's sketch
/// for GPUs does it.
struct Tiling {
  int64_t rows = 64, columns = 64, inner = 32;
  int64_t threads_i = 8, each_i = 2;                 // rows: of a block's threads, of each
  int64_t virtual_j = 2, threads_j = 8, each_j = 2;  // columns, with virtual threads
  int64_t step = 8, unrolled = 2;                    // of the inner dimension, in shared memory; of these at once
  int64_t vector = 4;                                // elements that a thread copies of B at once

  int64_t tile_i() const { return threads_i * each_i; }
  int64_t tile_j() const { return virtual_j * threads_j * each_j; }
  int64_t threads() const { return threads_i * threads_j; }
};

LoopProgram tiled_product(const Tiling& t) {
  const std::string steps = fmt::format(
      R"([["CHW", 2, "local"],
          ["SP", 2, 0, {rows}, [1, {ti}, {ei}, 1], 1], ["SP", 2, 5, {columns}, [{vj}, {tj}, 1, {ej}], 1],
          ["SP", 2, 10, {inner}, [{ro}, {un}], 1], ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
          ["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]], ["CA", 2, 3, 5],
          ["CHR", 1, "shared", [2]], ["CA", 2, 3, 6], ["CHR", 0, "shared", [3]], ["CA", 1, 4, 6],
          ["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]], ["AN", 5, 1, 4], ["FU", 5, [2, 3]], ["AN", 5, 2, 6],
          ["FU", 3, [0, 1]], ["SP", 3, 0, {of_b}, [{vector}], 1], ["AN", 3, 1, 2],
          ["SP", 3, 0, {of_b_outer}, [{threads}], 1], ["AN", 3, 1, 6],
          ["FU", 1, [0, 1]], ["SP", 1, 0, {of_a}, [{threads}], 1], ["AN", 1, 1, 6]])",
      fmt::arg("rows", t.rows), fmt::arg("columns", t.columns), fmt::arg("inner", t.inner), fmt::arg("ti", t.threads_i),
      fmt::arg("ei", t.each_i), fmt::arg("vj", t.virtual_j), fmt::arg("tj", t.threads_j), fmt::arg("ej", t.each_j),
      fmt::arg("ro", t.step / t.unrolled), fmt::arg("un", t.unrolled), fmt::arg("threads", t.threads()),
      fmt::arg("vector", t.vector), fmt::arg("of_b", t.step * t.tile_j()),
      fmt::arg("of_b_outer", t.step * t.tile_j() / t.vector), fmt::arg("of_a", t.tile_i() * t.step));
  return program_of(replayed(matmul(t.rows, t.columns, t.inner), steps));
}

/// A statement by what it stores into and where that is.
const ProgramStatement& statement_of(const LoopProgram& program, BufferScope scope, size_t which = 0) {
  for (const ProgramStatement& statement : program.statements) {
    if (statement.initial) continue;
    const auto store = program.accesses_of(statement)[0];
    if (program.buffers[static_cast<size_t>(store.buffer)].scope == scope && which-- == 0) return statement;
  }
  throw std::logic_error("no such statement");
}

std::vector<int64_t> lanes(const LoopProgram& program, const ProgramStatement& statement, size_t access) {
  const auto all = program.lanes_of(statement, program.accesses_of(statement)[access], 32);
  return {all.begin(), all.end()};
}

const WarpAccess& touched(const GpuShape& shape, const ProgramStatement& statement, size_t access) {
  return shape.accesses[statement.first_access + access];
}

/// 64 × 64 × 32 in 4 × 2 blocks of 8 × 8 threads; a block has 16 rows and 32 columns of C, a thread two rows of two
/// neighbouring columns for each of two virtual threads. Eight of the inner dimension are in shared memory at once.
TEST(GpuProgram, ProductByHand) {
  const LoopProgram program = tiled_product({});
  ASSERT_TRUE(program.is_gpu());
  ASSERT_EQ(program.kernels.size(), 1U);
  EXPECT_EQ(program.kernels[0].blocks, 8);
  EXPECT_EQ(program.kernels[0].virtual_threads, 2);
  EXPECT_EQ(program.kernels[0].block_threads(), 64);
  const ProgramStatement& copy_a = statement_of(program, BufferScope::shared, 0);
  const ProgramStatement& copy_b = statement_of(program, BufferScope::shared, 1);
  const ProgramStatement& update = statement_of(program, BufferScope::local);
  const ProgramStatement& store = statement_of(program, BufferScope::global);
  ASSERT_TRUE(update.update);

  // All multiplications, shared by 8 × 64 threads; a tile of A (16 × 8) or B (8 × 32) for each of 4 steps, copied by
  // 64 threads once, not once for each virtual thread.
  EXPECT_EQ(thread_iterations(program, update), 64 * 64 * 32 / (8 * 64));
  EXPECT_EQ(thread_iterations(program, copy_a), 4 * 16 * 8 / 64);
  EXPECT_EQ(thread_iterations(program, copy_b), 4 * 8 * 32 / 64);
  EXPECT_EQ(thread_iterations(program, store), 64 * 64 / (8 * 64));
  EXPECT_EQ(program.iterations(copy_b), 8 * 4 * 8 * 32);

  // Thread t is row pair t / 8 and column pair t % 8. It reads A's tile (rows of 8) from 2 · 8 · (t / 8), B's (rows of
  // 32) from 2 · (t % 8), and writes C (rows of 64).
  for (int64_t t = 0; t < 32; ++t) {
    EXPECT_EQ(lanes(program, update, 1)[t], 2 * 8 * (t / 8));
    EXPECT_EQ(lanes(program, update, 2)[t], 2 * (t % 8));
    EXPECT_EQ(lanes(program, store, 0)[t], 2 * 64 * (t / 8) + 2 * (t % 8));
    EXPECT_EQ(lanes(program, copy_a, 1)[t], 32 * (t / 8) + t % 8);            // 8 of a row of A (32)
    EXPECT_EQ(lanes(program, copy_b, 1)[t], 64 * (4 * t / 32) + 4 * t % 32);  // 4 at once of 32 of a row of B (64)
  }
  const GpuShape shape(program, gpu_of_target(kVolta, {}).gpu);
  // A: 4 words, 16 apart: the first and third are in bank 0, the others in bank 16. B: 8 words in 8 banks.
  EXPECT_EQ(touched(shape, update, 1).ways, 2.0);
  EXPECT_EQ(touched(shape, update, 1).elements, 4.0);
  EXPECT_EQ(touched(shape, update, 2).ways, 1.0);
  EXPECT_EQ(touched(shape, update, 2).elements, 8.0);
  // C: of 4 rows every other of 16 floats, which is 2 sectors a row.
  EXPECT_EQ(touched(shape, store, 0).sectors, 8.0);
  EXPECT_EQ(touched(shape, store, 0).lines, 4.0);
  EXPECT_EQ(touched(shape, store, 0).elements, 32.0);
  // A: 4 rows of 8 floats: a sector each. B: 4 rows of 32 floats, by 32 threads with 4 each.
  EXPECT_EQ(touched(shape, copy_a, 1).sectors, 4.0);
  EXPECT_EQ(touched(shape, copy_b, 1).sectors, 16.0);
  EXPECT_EQ(touched(shape, copy_b, 1).lines, 4.0);
  EXPECT_EQ(touched(shape, copy_b, 1).elements, 128.0);
  EXPECT_EQ(touched(shape, copy_b, 0).ways, 1.0) << "16 bytes a thread: 8 threads a request, 32 words side by side";

  const KernelShape& kernel = shape.kernels[0];
  EXPECT_EQ(kernel.warps, 2.0);
  EXPECT_EQ(kernel.shared_bytes, (16 * 8 + 8 * 32) * 4);
  EXPECT_EQ(kernel.local_bytes, 2 * 2 * 2 * 4);  // rows, columns, virtual threads
  EXPECT_EQ(kernel.registers, 8 + 24);
  // 2048 threads are 32 blocks of 64; 96 KiB hold 64 blocks' 1,536 bytes; 65,536 registers 32 blocks of 64 · 32.
  EXPECT_EQ(kernel.thread_limit, 32.0);
  EXPECT_EQ(kernel.shared_limit, 64.0);
  EXPECT_EQ(kernel.register_limit, 32.0);
  EXPECT_EQ(kernel.resident, 32.0);
  EXPECT_EQ(kernel.occupancy, 1.0);
  EXPECT_EQ(kernel.waves, 1.0);
  EXPECT_EQ(kernel.tail, 8.0 / (80 * 32));
  // Multiplications and additions; sectors of 32 bytes, each a thirty-second of a warp's.
  EXPECT_EQ(kernel.operations, 2 * 256);
  EXPECT_EQ(kernel.global_bytes, (8 * 4.0 + 4 * 16.0 + 8 * 8.0) * 32 / 32);
  // Cycles of shared memory: A's element stays for two columns, 128 times two ways; B's is read 256 times; the copy of
  // A writes 8 times, that of B 4 times in 4 requests. Each is shared by 32 threads.
  EXPECT_EQ(kernel.shared_cycles, (128 * 2.0 + 256 * 1.0 + 8 * 1.0 + 4 * 4.0) / 32);
}

/// A 3 × 3 convolution of 4 × 8 × 8, a block for every two rows: thread t of 32 computes channel t / 8, column t % 8,
/// both rows. For each input channel, a block copies 4 padded rows of 10.
LoopProgram small_convolution() {
  return program_of(replayed(convolution(8, 4), R"([["SP", 4, 1, 8, [2], 1], ["RE", 4, [1, 0, 3, 2]],
      ["FU", 4, [1, 2]], ["AN", 4, 0, 5], ["AN", 4, 1, 6], ["CA", 3, 4, 1], ["RE", 3, [3, 0, 1, 2, 4, 5]],
      ["CHR", 1, "shared", [3]], ["CA", 2, 4, 0], ["FU", 2, [0, 1, 2]], ["SP", 2, 0, 40, [32], 1], ["AN", 2, 1, 6],
      ["CI", 1]])"));
}

TEST(GpuProgram, ConvolutionByHand) {
  const LoopProgram program = small_convolution();
  ASSERT_EQ(program.kernels.size(), 1U);
  EXPECT_EQ(program.kernels[0].blocks, 4);
  EXPECT_EQ(program.kernels[0].block_threads(), 32);
  const ProgramStatement& copy = statement_of(program, BufferScope::shared);
  const ProgramStatement& update = statement_of(program, BufferScope::local);
  const ProgramStatement& store = statement_of(program, BufferScope::global);
  EXPECT_EQ(thread_iterations(program, copy), 4 * 2);  // 40 elements take 32 threads two rounds, for each channel
  EXPECT_EQ(thread_iterations(program, update), 4 * 2 * 9);
  EXPECT_EQ(thread_iterations(program, store), 2);
  const GpuShape shape(program, gpu_of_target(kVolta, {}).gpu);
  // Thread t copies row t / 10, column t % 10 of the padded image: (t / 10 − 1) · 8 + t % 10 − 1 of the image. These
  // are −9 to 16 without gaps: bytes −36 to 67, in sectors −2 to 2 and lines −1 and 0.
  for (int64_t t = 0; t < 32; ++t) EXPECT_EQ(lanes(program, copy, 1)[t], (t / 10 - 1) * 8 + t % 10 - 1);
  EXPECT_EQ(touched(shape, copy, 1).elements, 26.0);
  EXPECT_EQ(touched(shape, copy, 1).sectors, 5.0);
  EXPECT_EQ(touched(shape, copy, 1).lines, 2.0);
  EXPECT_EQ(touched(shape, copy, 0).ways, 1.0);
  // The image from shared memory: 8 neighbours, each for 4 channels. Weights: one of each channel, 36 apart.
  EXPECT_EQ(touched(shape, update, 1).elements, 8.0);
  EXPECT_EQ(touched(shape, update, 1).ways, 1.0);
  EXPECT_EQ(touched(shape, update, 2).elements, 4.0);
  EXPECT_EQ(touched(shape, update, 2).sectors, 4.0);
  EXPECT_EQ(touched(shape, store, 0).sectors, 4.0);  // 8 floats of each of 4 channels
  EXPECT_EQ(shape.kernels[0].shared_bytes, 4 * 10 * 4);
  EXPECT_EQ(shape.kernels[0].local_bytes, 2 * 4);
}

double column(const GraphBlock& block, int64_t node, const std::string& name) {
  const auto names = loop_column_names(LoopColumns::kWithGpu);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw std::logic_error("no column " + name);
  return static_cast<double>(block.node_features[node * block.feature_count + (found - names.begin())]);
}

TEST(GpuProgram, ColumnsByHand) {
  const LoopProgram program = tiled_product({});
  const Hardware volta = gpu_of_target(kVolta, {});
  const auto graphs = make_program_graphs(configs::Representation::loops, volta, LoopColumns::kWithGpu);
  graphs->add(program, 0.0);
  const GraphBlock block = graphs->finish();
  ASSERT_EQ(block.feature_count, LoopColumns::kWithGpu);
  std::vector<int64_t> statements;
  for (int64_t node = 0; node < block.nodes(); ++node) {
    if (column(block, node, "statement.is_statement") == 1.0) statements.push_back(node);
    EXPECT_EQ(column(block, node, "gpu.is_gpu"), column(block, node, "statement.is_statement"));
    EXPECT_EQ(column(block, node, "gpu_access.is_gpu_access"), column(block, node, "access.is_access"));
  }
  ASSERT_EQ(statements.size(), 5U);  // the start of C.local, the copies of A and B, the update, the copy to C
  const int64_t update = statements[3], store = statements[4];
  // Eight blocks on 80 multiprocessors: the busiest has one.
  EXPECT_NEAR(column(block, update, "statement.critical"), std::log(64.0 * 64 * 32 / 8), 1e-5);
  EXPECT_EQ(column(block, statements[0], "statement.launches"), 1.0);
  EXPECT_EQ(column(block, update, "statement.launches"), 0.0);
  EXPECT_EQ(column(block, update, "gpu.blocks"), 3.0);
  EXPECT_EQ(column(block, update, "gpu.threads"), 6.0);
  EXPECT_EQ(column(block, update, "gpu.warps"), 1.0);
  EXPECT_EQ(column(block, update, "gpu.full_lanes"), 1.0);
  EXPECT_EQ(column(block, update, "gpu.occupancy"), 1.0);
  EXPECT_EQ(column(block, update, "gpu.limited_by_shared"), 0.0);
  EXPECT_EQ(column(block, update, "gpu.limited_by_registers"), 1.0);
  EXPECT_EQ(column(block, update, "gpu.conflicts"), 1.0);
  EXPECT_EQ(column(block, update, "gpu.reads.shared"), 2.0);
  EXPECT_EQ(column(block, update, "gpu.writes.local"), 1.0);
  EXPECT_FLOAT_EQ(column(block, update, "gpu.thread_iterations"), 8.0);
  EXPECT_EQ(column(block, store, "gpu.waste"), 1.0);
  EXPECT_EQ(column(block, store, "gpu.writes.global"), 1.0);
  EXPECT_FLOAT_EQ(column(block, update, "gpu.busy"), 0.1);
  // The first columns are those of other collections.
  const auto names = loop_column_names(LoopColumns::kWithGpu), before = loop_column_names();
  ASSERT_EQ(static_cast<int64_t>(names.size()), LoopColumns::kWithGpu);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), names.begin()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(GpuProgram, GraphsOfGpusRefuseOtherPrograms) {
  const auto graphs =
      make_program_graphs(configs::Representation::loops, gpu_of_target(kVolta, {}), LoopColumns::kWithGpu);
  EXPECT_MESSAGE(
      testing::message_of<DataError>([&] { graphs->add(program_of(replayed(matmul(8, 8, 8), "[]")), 0.0); }));
}

/// By definition: all bytes that the warp touches, in sets.
WarpAccess slow_access(std::span<const int64_t> lanes, int64_t vector, int64_t stride, int64_t element_bytes) {
  const auto floor_of = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
  };
  std::set<int64_t> elements, sectors, lines;
  for (const int64_t lane : lanes) {
    for (int64_t v = 0; v < vector; ++v) {
      const int64_t position = lane + v * stride;
      elements.insert(position);
      for (int64_t byte = position * element_bytes; byte < (position + 1) * element_bytes; ++byte) {
        sectors.insert(floor_of(byte, 32));
        lines.insert(floor_of(byte, 128));
      }
    }
  }
  WarpAccess result;
  result.elements = static_cast<double>(elements.size());
  result.sectors = static_cast<double>(sectors.size());
  result.lines = static_cast<double>(lines.size());
  result.bytes = static_cast<double>(static_cast<int64_t>(lanes.size()) * vector * element_bytes);
  const bool wide = stride == 1 && vector * element_bytes <= 16;
  const int64_t at_once = wide ? vector : 1;
  const int64_t words = std::max<int64_t>(1, at_once * element_bytes / 4);
  double cycles = 0.0, requests = 0.0;
  for (int64_t v = 0; v < vector; v += at_once) {
    for (size_t first = 0; first < lanes.size(); first += static_cast<size_t>(32 / words)) {
      std::map<int64_t, std::set<int64_t>> of_bank;
      for (size_t lane = first; lane < std::min(lanes.size(), first + static_cast<size_t>(32 / words)); ++lane) {
        for (int64_t word = 0; word < words; ++word) {
          const int64_t at = floor_of((lanes[lane] + v * stride) * element_bytes, 4) + word;
          of_bank[at - 32 * floor_of(at, 32)].insert(at);
        }
      }
      size_t most = 0;
      for (const auto& [bank, different] : of_bank) most = std::max(most, different.size());
      cycles += static_cast<double>(most);
      requests += 1.0;
    }
  }
  result.cycles = cycles;
  result.ways = cycles / requests;
  return result;
}

TEST(WarpAccess, EqualsTheDefinition) {
  std::mt19937 random(7);
  const auto any = [&](int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> positions(static_cast<size_t>(any(1, 64)));
    const int64_t kind = any(0, 2), stride = any(0, 70), start = any(-100, 100);
    for (size_t lane = 0; lane < positions.size(); ++lane)
      positions[lane] = kind == 0 ? any(-200, 200) : start + stride * static_cast<int64_t>(kind == 1 ? lane : lane / 8);
    const int64_t vector = any(0, 1) == 0 ? 1 : int64_t{1} << any(1, 4);
    const int64_t step = any(0, 3), bytes = int64_t{1} << any(0, 3);
    const WarpAccess fast = warp_access(positions, vector, step, bytes);
    const WarpAccess slow = slow_access(positions, vector, step, bytes);
    ASSERT_EQ(fast.elements, slow.elements);
    ASSERT_EQ(fast.sectors, slow.sectors);
    ASSERT_EQ(fast.lines, slow.lines);
    ASSERT_EQ(fast.bytes, slow.bytes);
    ASSERT_EQ(fast.cycles, slow.cycles);
    ASSERT_EQ(fast.ways, slow.ways) << vector << " " << step << " " << bytes;
  }
}

/// What threads touch in random tilings, by the tiling's own arithmetic.
TEST(GpuProgram, LanesOfRandomTilings) {
  std::mt19937 random(11);
  const auto power = [&](int low, int high) { return int64_t{1} << std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 200; ++round) {
    Tiling t;
    t.threads_i = power(0, 4), t.each_i = power(0, 3), t.virtual_j = power(0, 2);
    t.threads_j = power(1, 4), t.each_j = power(0, 3), t.unrolled = power(0, 2), t.step = t.unrolled * power(0, 3);
    t.rows = t.tile_i() * power(0, 3), t.columns = t.tile_j() * power(0, 3), t.inner = t.step * power(0, 3);
    t.vector = std::gcd(power(0, 2), t.step * t.tile_j());
    const LoopProgram program = tiled_product(t);
    if (!program.is_gpu()) continue;
    const ProgramStatement& update = statement_of(program, BufferScope::local);
    const ProgramStatement& copy_b = statement_of(program, BufferScope::shared, 1);
    ASSERT_EQ(program.kernels[0].block_threads(), t.threads());
    ASSERT_EQ(thread_iterations(program, update),
              static_cast<double>(t.rows * t.columns * t.inner / (t.rows / t.tile_i() * (t.columns / t.tile_j()))) /
                  static_cast<double>(t.threads()));
    const auto a = lanes(program, update, 1), b = lanes(program, update, 2), from = lanes(program, copy_b, 1);
    for (int64_t lane = 0; lane < static_cast<int64_t>(a.size()); ++lane) {
      ASSERT_EQ(a[static_cast<size_t>(lane)], lane / t.threads_j * t.each_i * t.step);
      ASSERT_EQ(b[static_cast<size_t>(lane)], lane % t.threads_j * t.each_j);
      if (lane * t.vector >= t.step * t.tile_j()) continue;  // more threads than there is to copy: guarded
      ASSERT_EQ(from[static_cast<size_t>(lane)],
                lane * t.vector / t.tile_j() * t.columns + lane * t.vector % t.tile_j());
    }
  }
}

/// Positions of lanes against the index evaluated as a whole, for every access of auto_scheduler's own schedules.
TEST(LanePositions, EqualEvaluationOfTheWholeIndex) {
  const auto folder = source_dir() / "tests/data/frontends/ansor";
  const DagTable dags(folder / "gpu_operators_dags.jsonl.gz");
  LineSource source(folder / "gpu_operators_states.jsonl.gz");
  int64_t compared = 0, different = 0;
  while (const auto line = source.next()) {
    const auto json = nlohmann::json::parse(line->text);
    const auto dag = dags.find(json.at("workload_key").get<std::string>());
    ASSERT_NE(dag, nullptr);
    LoopNest nest = replayed(dag, json.at("steps").dump());
    const ProgramKernel kernel{.threads = {16, 2, 2}};
    for (size_t stage = 0; stage < nest.stages.size(); ++stage) {
      if (nest.dag->stages[stage].input || nest.stages[stage].compute_at == ComputeAt::inlined) continue;
      std::vector<NestAccess> accesses;
      stage_accesses(nest, stage, 0, accesses);
      for (const NestAccess& access : accesses) {
        Affine flat = Affine::of(0);
        for (const Affine& index : access.indices) flat = nest.pool.add(nest.pool.scale(flat, 100), index);
        std::vector<int64_t> fast(64, -1);
        lane_positions(nest, flat, kernel, fast);
        for (int64_t lane = 0; lane < 64; ++lane) {
          const int64_t slow = nest.pool.evaluate(flat, [&](int32_t variable) -> int64_t {
            switch (nest.variables[static_cast<size_t>(variable)].thread) {
              case Annotation::thread_x: return lane % 16;
              case Annotation::thread_y: return lane / 16 % 2;
              case Annotation::thread_z: return lane / 32;
              default: return 0;
            }
          });
          ASSERT_EQ(fast[static_cast<size_t>(lane)], slow);
        }
        ++compared;
        different += fast[1] != fast[0];
      }
    }
  }
  EXPECT_GT(compared, 300);
  EXPECT_GT(different, 100);
}

TEST(GpuTarget, IsReadFromTargetAndRecord) {
  EXPECT_TRUE(is_gpu_target("cuda"));
  EXPECT_TRUE(is_gpu_target("rocm -keys=rocm,gpu -mcpu=gfx906"));
  EXPECT_TRUE(is_gpu_target("opencl -keys=mali,opencl,gpu -device=mali"));
  EXPECT_FALSE(is_gpu_target("llvm -keys=cpu -mcpu=cuda"));
  EXPECT_FALSE(is_gpu_target("cudart"));
  const Hardware turing = gpu_of_target("cuda -arch=sm_75 -max_num_threads=512 -thread_warp_size=32", {});
  EXPECT_EQ(turing.gpu.threads_per_block, 512);
  EXPECT_EQ(turing.gpu.threads_per_multiprocessor, 1024);
  EXPECT_EQ(turing.cores, 68);
  HardwareParameters said;
  said.threads_per_block = 256, said.shared_memory_per_block = 65536, said.warp_size = 64;
  const Hardware amd = gpu_of_target("rocm -mcpu=gfx906 -max_num_threads=1024", said);
  EXPECT_EQ(amd.gpu.threads_per_block, 256) << "the record knows better";
  EXPECT_EQ(amd.gpu.warp_size, 64);
  EXPECT_EQ(amd.gpu.multiprocessors, 60);
  EXPECT_MESSAGE(testing::message_of<DataError>([] { gpu_of_target("cuda -arch=sm_80", {}); }));
}

/// Blocks of 256 threads with 40 registers on an A100: six of them fill its 65,536 registers, 48 of 64 warps.
TEST(KernelShape, OccupancyAsNvidiaCountsIt) {
  LoopProgram program;
  program.kernels.push_back({.blocks = 1000, .threads = {256, 1, 1}});
  program.buffers.push_back({.elements = 16, .scope = BufferScope::local});
  program.accesses.push_back({});
  program.lanes.assign(kMostLanes, 0);
  program.statements.push_back({.accesses = 1});
  const GpuLimits ampere = gpu_of_target("cuda -arch=sm_80 -max_num_threads=1024", {}).gpu;
  const KernelShape shape = GpuShape(program, ampere).kernels.at(0);
  EXPECT_EQ(shape.registers, 40.0);
  EXPECT_EQ(shape.resident, 6.0);
  EXPECT_EQ(shape.occupancy, 0.75);
  EXPECT_EQ(shape.waves, 2.0);  // 648 at once
  EXPECT_TRUE(shape.fits);
  program.kernels[0].threads = {2048, 1, 1};
  EXPECT_FALSE(GpuShape(program, ampere).kernels.at(0).fits);
}

}  // namespace
}  // namespace foretime::data
