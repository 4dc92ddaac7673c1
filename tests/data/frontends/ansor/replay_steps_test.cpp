#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

/// Steps that the CPU records of the golden states lack, worked out by hand from TVM's rules, and steps that are wrong.
namespace foretime::data {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kASharedStage = 1, kBSharedStage = 3, kLocalStage = 4, kOutputStage = 5;

/// Ansor's sketch for a GPU: C is computed in registers, and A and B are copied to shared memory by all threads of a
/// block.
std::string gpu_steps(int vector_length, bool bind) {
  return fmt::format(R"([["CHW", 2, "local"],
    ["SP", 2, 0, 512, [1, 16, 2, 4], 1], ["SP", 2, 5, 512, [2, 8, 1, 4], 1], ["SP", 2, 10, 512, [4, 2], 1],
    ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
    ["FSP", 3, 0, 1, 3], ["FSP", 3, 4, 2, 3], ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]], ["CA", 2, 3, 5],
    ["CHR", 1, "shared", [2]], ["CA", 2, 3, 6], ["CHR", 0, "shared", [3]], ["CA", 1, 4, 6],
    ["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]], ["AN", 5, 1, 4], ["FU", 5, [2, 3]], ["AN", 5, 2, 6],
    ["FU", 3, [0, 1]], ["SP", 3, 0, 512, [{0}], 1], ["AN", 3, 1, 2], ["FFSP", 3, 0, [1, 2], 1, 1],
    ["FU", 1, [0, 1]], ["SP", 1, 0, 1024, [2], 1], ["AN", 1, 1, 2], ["FFSP", 1, 0, [1, 2], 1, 1],
    {1}
    ["PR", 4, 0, "auto_unroll_max_step$64"]])",
                     vector_length, bind ? R"(["AN", 3, 1, 6], ["AN", 1, 1, 6],)" : "");
}

TEST(ReplaySteps, GpuScheduleWithSharedMemory) {
  const LoopNest nest = replayed(matmul(512, 512, 512), gpu_steps(4, true));
  ASSERT_EQ(nest.stages.size(), 6u);
  EXPECT_EQ(to_text(*nest.dag),
            "A = PLACEHOLDER [512, 512]\nA.shared(ax0, ax1) = A[ax0, ax1]\nB = PLACEHOLDER [512, 512]\n"
            "B.shared(ax0, ax1) = B[ax0, ax1]\nC.local(i.c, j.c) += (A.shared[i.c, k]*B.shared[k, j.c])\n"
            "C(i, j) = C.local[i, j]\n");
  // 512 / (1·16·2·4) = 4 and 512 / (2·8·1·4) = 8 blocks, 1·2 virtual threads, 16·8 threads, 2·4 × 1·4 elements each.
  EXPECT_EQ(
      loops_of(nest, kOutputStage),
      "blockIdx.x blockIdx.x 32\nvthread vthread 2\nthreadIdx.x threadIdx.x 128\ni.inner none 8\nj.inner none 4\n");
  // In registers a thread computes its own elements only: loops of blocks and threads are 1 long.
  EXPECT_EQ(loops_of(nest, kLocalStage),
            "i.c.outer.outer.outer.outer none 1\nj.c.outer.outer.outer.outer none 1\n"
            "i.c.outer.outer.outer.inner none 1\nj.c.outer.outer.outer.inner none 1\n"
            "i.c.outer.outer.inner none 1\nj.c.outer.outer.inner none 1\nk.outer.outer none 64\nk.outer.inner none 4\n"
            "i.c.outer.inner none 2\nj.c.outer.inner none 1\nk.inner none 2\ni.c.inner none 4\nj.c.inner none 4\n");
  // Shared memory serves all threads of the block: 128 × 8 elements of A, 8 × 64 of B.
  EXPECT_EQ(loops_of(nest, kASharedStage),
            "ax0.ax1.fused.outer.outer none 4\nthreadIdx.x threadIdx.x 128\nax0.ax1.fused.inner vectorize 2\n");
  EXPECT_EQ(loops_of(nest, kBSharedStage),
            "ax0.ax1.fused.outer.outer none 1\nthreadIdx.x threadIdx.x 128\nax0.ax1.fused.inner vectorize 4\n");
  EXPECT_EQ(nest.stages[kLocalStage].attach_stage, 5);
  EXPECT_EQ(nest.stages[kLocalStage].attach_iterator, 2);
  EXPECT_EQ(nest.stages[kLocalStage].auto_unroll_max_step, 64);
  for (const size_t copy : {kASharedStage, kBSharedStage}) {
    EXPECT_EQ(nest.stages[copy].attach_stage, static_cast<int32_t>(kLocalStage));
    EXPECT_EQ(nest.stages[copy].attach_iterator, 6);
  }
}

TEST(ReplaySteps, LoopsOfThreadsKeepTheirLength) {
  // 512 / 8 = 64 groups for 128 threads: the others idle, and the loop still has 128.
  EXPECT_THAT(loops_of(replayed(matmul(512, 512, 512), gpu_steps(8, true)), kBSharedStage),
              HasSubstr("threadIdx.x threadIdx.x 128\n"));
  EXPECT_THAT(loops_of(replayed(matmul(512, 512, 512), gpu_steps(8, false)), kBSharedStage),
              HasSubstr("ax0.ax1.fused.outer.inner none 64\n"));
}

TEST(ReplaySteps, BoundsNameThreads) {
  // C.local keeps its axes, so they start where the thread's part starts.
  const LoopNest nest = replayed(matmul(64, 64, 64), R"([["CHW", 2, "local"], ["SP", 3, 0, 64, [16, 2], 1],
    ["AN", 3, 0, 7], ["AN", 3, 1, 8], ["CA", 2, 3, 1]])");
  const auto& local = nest.stages[2];
  EXPECT_EQ(bound_text(nest, nest.variable(local.iterators[0]).minimum), "((threadIdx.y*2) + (blockIdx.y*32))");
  EXPECT_EQ(bound_text(nest, nest.variable(local.iterators[0]).extent), "2");
  EXPECT_EQ(bound_text(nest, nest.variable(local.iterators[1]).extent), "64");
}

TEST(ReplaySteps, MemoryDecidesWhichThreadsAreServed) {
  const auto extent = [](const char* scope) {
    const LoopNest nest = replayed(matmul(64, 64, 64), fmt::format(R"([["CHW", 2, "{}"], ["SP", 3, 0, 64, [16, 2], 1],
      ["AN", 3, 0, 5], ["AN", 3, 1, 6], ["CA", 2, 3, 1]])",
                                                                   scope));
    return nest.variable(nest.stages[2].iterators[0]).extent.base;
  };
  EXPECT_EQ(extent("local"), 2);
  EXPECT_EQ(extent("shared"), 32);
  EXPECT_EQ(extent("warp"), 32);  // threadIdx.x counts the threads of a warp
  EXPECT_EQ(extent("global"), 64);
}

TEST(ReplaySteps, SharedMemoryServesTheThreadsAroundALoopOfEachThread) {
  // A.shared is filled within C.local, which one thread computes in its i.inner: 16 threads, 4 rows apart, read it.
  const LoopNest nest = replayed(matmul(64, 64, 64), R"([["CHW", 2, "local"], ["SP", 3, 0, 64, [4], 1],
    ["AN", 3, 0, 6], ["CA", 2, 3, 1], ["CHR", 0, "shared", [2]], ["CA", 1, 3, 2]])");
  EXPECT_EQ(loops_of(nest, 4), "threadIdx.x threadIdx.x 16\ni.inner none 4\nj none 64\n");
  EXPECT_EQ(loops_of(nest, kASharedStage), "ax0 none 61\nax1 none 1\n");
}

/// C reads ten values in the middle of P. Its loop over them is split by 4, which makes 12 turns of which 10 count.
TEST(ReplaySteps, ASplitThatDoesNotDivideNeedsNoMoreThanWhatWasSplit) {
  const std::string table = fmt::format(
      R"json({{"workload_key": "[\"part\"]", "stages": [{},
      {{"id": 1, "name": "P", "dtype": "float32", "shape": [100], "kind": "compute", "axes": [["i", 100]],
        "reduce_axes": [], "combiner": null, "body": "(A[i]*2f)", "tag": "",
        "reads": [{{"op": 0, "name": "A", "indices": ["i"]}}], "is_output": false}},
      {{"id": 2, "name": "C", "dtype": "float32", "shape": [2, 10], "kind": "compute", "axes": [["h", 2], ["j", 10]],
        "reduce_axes": [], "combiner": null, "body": "P[(j + 5)]", "tag": "",
        "reads": [{{"op": 1, "name": "P", "indices": ["(j + 5)"]}}], "is_output": true}}]}})json",
      input_stage(0, "A", "[100]"));
  const auto dag = std::make_shared<const ComputeDag>(parse_compute_dag(table));
  const LoopNest nest = replayed(dag, R"([["SP", 2, 1, 10, [4], 1], ["CA", 1, 2, 0]])");
  EXPECT_EQ(loops_of(nest, 2), "h none 2\nj.outer none 3\nj.inner none 4\n");
  EXPECT_EQ(loops_of(nest, 1), "i none 10\n");
  EXPECT_EQ(bound_text(nest, nest.variable(nest.stages[1].iterators[0]).minimum), "5");
}

TEST(ReplaySteps, FollowFusedSplitByFactorAndByParts) {
  // As TVM's own test: the product of the lengths at one level of both splits, as inner or as outer length.
  const std::string common =
      R"(["CHW", 2, "global"], ["SP", 3, 0, 512, [4, 2, 8, 4], 1], ["SP", 3, 5, 512, [2, 2, 4, 8], 1])";
  constexpr int kLengths[] = {8, 4, 32, 32};
  for (int level = 0; level < 4; ++level) {
    const auto at = [&](int factor) {
      return loops_of(replayed(matmul(512, 512, 512),
                               fmt::format(R"([{}, ["FFSP", 2, 0, [1, 2], {}, {}]])", common, level, factor)),
                      2);
    };
    EXPECT_THAT(at(1), ::testing::StartsWith(fmt::format("i.c.outer none {}\ni.c.inner none {}\n",
                                                         512 / kLengths[level], kLengths[level])));
    EXPECT_THAT(at(0), ::testing::StartsWith(fmt::format("i.c.outer none {}\ni.c.inner none {}\n", kLengths[level],
                                                         512 / kLengths[level])));
  }
}

TEST(ReplaySteps, CacheReadForAConvolution) {
  // The extents that TVM's test of cache_read states, for this smaller convolution.
  const LoopNest nest = replayed(convolution(7, 16), R"([["CHW", 3, "global"], ["CA", 3, 4, 2],
    ["CHR", 2, "global", [3]], ["CA", 3, 4, 3], ["CHR", 1, "global", [4]], ["CA", 2, 5, 1],
    ["CHR", 2, "shared", [5]], ["CA", 3, 6, 3]])");
  EXPECT_EQ(to_text(*nest.dag).substr(0, 30), "data = PLACEHOLDER [16, 7, 7]\n");
  ASSERT_EQ(nest.stages.size(), 9u);
  EXPECT_EQ(nest.dag->stages[2].name, "pad.global");
  EXPECT_EQ(nest.dag->stages[3].name, "pad.global.shared");
  EXPECT_EQ(loops_of(nest, 2), "ax0 none 16\nax1 none 3\nax2 none 3\n");
  EXPECT_EQ(loops_of(nest, 3), "ax0 none 1\nax1 none 3\nax2 none 3\n");
  EXPECT_EQ(loops_of(nest, 5), "ax0 none 1\nax1 none 1\nax2 none 3\nax3 none 3\n");
  EXPECT_EQ(loops_of(nest, 6), "ff.c none 1\nyy.c none 1\nxx.c none 1\nrc none 16\nry none 3\nrx none 3\n");
}

TEST(ReplaySteps, SecondCacheOfOneStageHasAnotherName) {
  const LoopNest nest = replayed(matmul(8, 8, 8), R"([["CHR", 0, "shared", [2]], ["CHW", 3, "local"],
    ["CHR", 0, "shared", [1]]])");
  EXPECT_EQ(nest.dag->stages[1].name, "A.d.shared");
  EXPECT_EQ(nest.dag->stages[2].name, "A.shared");
  EXPECT_THAT(to_text(*nest.dag), HasSubstr("A.shared(ax0, ax1) = A.d.shared[ax0, ax1]\n"));
}

TEST(ReplaySteps, StorageAlignTensorizeAndPragma) {
  const LoopNest nest = replayed(matmul(8, 8, 8), R"([["CHW", 2, "shared"], ["SA", 2, 1, 32, 8], ["AN", 2, 2, 11],
    ["PR", 3, 0, "auto_unroll_max_step$512"]])");
  EXPECT_EQ(nest.stages[2].storage_offset, 8);
  EXPECT_EQ(nest.stages[3].auto_unroll_max_step, 512);
  EXPECT_EQ(loops_of(nest, 2), "i.c none 8\nj.c none 8\nk tensorize 8\n");
}

TEST(ReplaySteps, RfactorOfTheOuterAndOfTheInnerPart) {
  const LoopNest outer = replayed(matmul(8, 8, 512), R"([["SP", 2, 2, 512, [16], 1], ["RF", 2, 2, 2]])");
  EXPECT_EQ(loops_of(outer, 2), "i none 8\nj none 8\nk.outer none 32\nk.inner none 16\n");
  EXPECT_EQ(loops_of(outer, 3), "ax0 none 8\nax1 none 8\nk.outer.v none 32\n");
  EXPECT_THAT(to_text(*outer.dag), HasSubstr("C.rf(i, j, k.outer) += (A[i, (k.inner + (k.outer*16))]*B[(k.inner + "
                                             "(k.outer*16)), j])\nC.repl(ax0, ax1) += C.rf[ax0, ax1, k.outer.v]\n"));
  const LoopNest inner = replayed(matmul(8, 8, 512), R"([["SP", 2, 2, 512, [16], 1], ["RF", 2, 3, 0]])");
  EXPECT_EQ(loops_of(inner, 2), "k.inner none 16\ni none 8\nj none 8\nk.outer none 32\n");
  EXPECT_EQ(loops_of(inner, 3), "ax0 none 8\nax1 none 8\nk.inner.v none 16\n");
}

/// Inserted stages copy values or sum parts of what is computed anyway.
TEST(ReplaySteps, OperationsAreCountedOnce) {
  for (const char* steps : {R"([["SP", 2, 2, 512, [16], 1], ["RF", 2, 2, 2]])", R"([["CHW", 2, "local"]])",
                            R"([["CHR", 0, "shared", [2]]])"}) {
    EXPECT_EQ(replayed(matmul(8, 8, 512), steps).dag->flops, 2.0 * 8 * 8 * 512) << steps;
  }
}

/// One run of the reader's outer loop reads h + j mod 8 for 4 values of j: from h + 4·j.outer − 8·floor(j.outer / 2)
/// on, of which TVM's form subtracts the last part.
TEST(ReplaySteps, WhatARemainderSubtractsIsKeptWithTheBound) {
  const std::string table = fmt::format(
      R"json({{"workload_key": "[\"remainder\"]", "stages": [{},
      {{"id": 1, "name": "P", "dtype": "float32", "shape": [9], "kind": "compute", "axes": [["i", 9]], "reduce_axes": [],
        "combiner": null, "body": "(A[i]*2f)", "tag": "", "reads": [{{"op": 0, "name": "A", "indices": ["i"]}}],
        "is_output": false}},
      {{"id": 2, "name": "C", "dtype": "float32", "shape": [2, 16], "kind": "compute", "axes": [["h", 2], ["j", 16]],
        "reduce_axes": [], "combiner": null, "body": "P[(floormod(j, 8) + h)]", "tag": "",
        "reads": [{{"op": 1, "name": "P", "indices": ["(floormod(j, 8) + h)"]}}], "is_output": true}}]}})json",
      input_stage(0, "A", "[9]"));
  const auto dag = std::make_shared<const ComputeDag>(parse_compute_dag(table));
  const LoopNest nest = replayed(dag, R"([["SP", 2, 1, 16, [4], 1], ["CA", 1, 2, 1]])");
  const auto& axis = nest.variable(nest.stages[1].iterators[0]);
  EXPECT_EQ(bound_text(nest, axis.extent), "4");
  EXPECT_EQ(bound_text(nest, axis.minimum), "(((j.outer*4) + h) + (floordiv(j.outer, 2)*-8))");
  EXPECT_EQ(bound_text(nest, axis.subtracted), "(floordiv(j.outer, 2)*8)");
}

TEST(ReplaySteps, SplitByParts) {
  const LoopNest nest =
      replayed(matmul(512, 500, 512), R"([["SP", 2, 0, 512, [8, 2], 0], ["SP", 2, 3, 500, [32, 8], 0]])");
  EXPECT_EQ(loops_of(nest, 2),
            "i.outer none 8\ni.inner.outer none 2\ni.inner.inner none 32\n"
            "j.outer none 32\nj.inner.outer none 8\nj.inner.inner none 2\nk none 512\n");
}

TEST(ReplaySteps, AttachmentsFollowSplitsAndFusions) {
  const LoopNest nest =
      replayed(convolution(8, 16), R"([["CA", 3, 4, 1], ["SP", 4, 1, 8, [4], 1], ["FU", 4, [0, 1, 2]]])");
  EXPECT_EQ(nest.stages[3].attach_iterator, 0);
  EXPECT_EQ(loops_of(nest, 3), "ff none 1\nyy none 1\nxx none 8\nrc none 16\nry none 3\nrx none 3\n");
}

TEST(ReplaySteps, FusedLoopsAreMixedWhereTheirKindsDiffer) {
  const auto kinds = [](const char* steps) {
    const LoopNest nest = replayed(convolution(8, 16), steps);
    std::vector<IteratorKind> all;
    for (const auto& iterator : nest.stages[3].iterators) all.push_back(iterator.kind);
    return all;
  };
  constexpr auto kSpatial = IteratorKind::spatial, kReduce = IteratorKind::reduce, kMixed = IteratorKind::mixed;
  EXPECT_THAT(kinds(R"([["FU", 3, [0, 1]]])"), ElementsAre(kSpatial, kSpatial, kReduce, kReduce, kReduce));
  EXPECT_THAT(kinds(R"([["FU", 3, [3, 4, 5]]])"), ElementsAre(kSpatial, kSpatial, kSpatial, kReduce));
  EXPECT_THAT(kinds(R"([["FU", 3, [2, 3]]])"), ElementsAre(kSpatial, kSpatial, kMixed, kReduce, kReduce));
  EXPECT_THAT(kinds(R"([["FU", 3, [2, 3, 4]]])"), ElementsAre(kSpatial, kSpatial, kMixed, kReduce));
  // A split keeps the kind, and what was mixed stays so.
  EXPECT_THAT(kinds(R"([["FU", 3, [2, 3]], ["SP", 3, 2, 128, [4], 1], ["FU", 3, [3, 4]]])"),
              ElementsAre(kSpatial, kSpatial, kMixed, kMixed, kReduce));
}

TEST(ReplaySteps, OneReplayerServesManySchedules) {
  // What a replayer keeps must not show: the same schedule gives the same nest after another, and after a failure.
  Replayer replayer;
  LoopNest nest;
  const auto dag = matmul(512, 512, 512);
  const auto steps = steps_of(gpu_steps(4, true));
  replayer.replay(dag, steps, nest);
  const std::string first = loops_of(nest);
  replayer.replay(convolution(8, 16), steps_of(R"([["CA", 3, 4, 1]])"), nest);
  EXPECT_THROW(replayer.replay(dag, steps_of(R"([["CHW", 2, "local"], ["CA", 2, 3, 9]])"), nest), DataError);
  replayer.replay(dag, steps, nest);
  EXPECT_EQ(loops_of(nest), first);
  EXPECT_EQ(nest.stages.front().serial, 0);
}

TEST(Accesses, AreOverTheLoopsAroundTheStatement) {
  // relu is tiled, the convolution is computed in its tile, and the padding is inlined.
  LoopNest nest = replayed(convolution(8, 16), R"([["SP", 4, 1, 8, [4], 1], ["SP", 4, 3, 8, [2], 1],
    ["RE", 4, [0, 1, 3, 2, 4]], ["CA", 3, 4, 2], ["CI", 1]])");
  std::vector<NestAccess> accesses;
  stage_accesses(nest, 3, 0, accesses);
  const auto text = [&](const NestAccess& access) {
    std::string out = nest.dag->stages[access.memory].name;
    for (const Affine& index : access.indices) out += " " + bound_text(nest, index);
    return out;
  };
  ASSERT_EQ(accesses.size(), 3u);
  EXPECT_EQ(text(accesses[0]), "conv i0 ((i1.outer*4) + yy) ((i2.outer*2) + xx)");
  EXPECT_EQ(text(accesses[1]), "data rc ((((i1.outer*4) + yy) + ry) + -1) ((((i2.outer*2) + xx) + rx) + -1)");
  EXPECT_EQ(text(accesses[2]), "kernel i0 rc ry rx");
  stage_accesses(nest, 4, 0, accesses);
  ASSERT_EQ(accesses.size(), 2u);
  EXPECT_EQ(text(accesses[0]), "relu i0 ((i1.outer*4) + i1.inner) ((i2.outer*2) + i2.inner)");
  EXPECT_EQ(text(accesses[1]), "conv i0 ((i1.outer*4) + i1.inner) ((i2.outer*2) + i2.inner)");
}

struct WrongStep {
  const char* steps;
  const char* message;
};

class WrongSteps : public ::testing::TestWithParam<WrongStep> {};

TEST_P(WrongSteps, SayWhatIsWrong) {
  EXPECT_THAT(testing::message_of<DataError>([&] { replayed(matmul(64, 64, 64), GetParam().steps); }),
              HasSubstr(GetParam().message))
      << "expected: " << GetParam().message;
}

INSTANTIATE_TEST_SUITE_P(
    ReplaySteps, WrongSteps,
    ::testing::Values(
        WrongStep{R"([["CI", 7]])", "step 0 (CI of stage 7): stage 7, expected 0 to 2"},
        WrongStep{R"([["AN", 2, 5, 3]])", "iterator 5, expected one of the stage's 3"},
        WrongStep{R"([["AN", 2, 0, 3], ["AN", 2, 0, 2]])", "step 1 (AN of stage 2): iterator 0: has parallel"},
        WrongStep{R"([["SP", 2, 0, 64, [null], 1]])", "split length number 0 (from 0) is not set"},
        WrongStep{R"([["FU", 2, [0, 2]]])", "fuses iterator 2 after 0, expected neighbours"},
        WrongStep{R"([["FU", 2, []]])", "fuses no iterators"},
        WrongStep{R"([["RE", 2, [0, 1]]])", "2 iterators, expected all 3"},
        WrongStep{R"([["RE", 2, [0, 1, 1]]])", "iterator 1 occurs twice"},
        WrongStep{R"([["PR", 2, 0, "unroll"]])", "pragma 'unroll', expected auto_unroll_max_step$NUMBER"},
        WrongStep{R"([["PR", 2, 0, ""]])", "pragma ''"},
        WrongStep{R"([["FSP", 2, 0, 0, 1]])", "follows step 0, expected one before it"},
        WrongStep{R"([["AN", 2, 0, 3], ["FSP", 2, 1, 0, 1]])", "follows step 0 (AN), expected SP"},
        WrongStep{R"([["SP", 2, 0, 64, [4], 1], ["FSP", 2, 2, 0, 3]])", "3 splits, expected at most 2"},
        WrongStep{R"([["SP", 2, 0, 64, [4], 1], ["FFSP", 2, 2, [0], 1, 1]])", "level 1, expected 0 to 0"},
        WrongStep{R"([["SP", 2, 0, 60, [4], 1]])", "step 0 (SP of stage 2): splits 60 iterations of i, expected 64"},
        WrongStep{R"([["CA", 2, 2, 0]])", "step 0 (CA of stage 2): attached to itself, expected another stage"},
        WrongStep{R"([["CHW", 2, "local"], ["CA", 2, 3, 0], ["CI", 3]])", "inlined, though stages are attached"},
        WrongStep{R"([["CI", 2]])", "inlined, though it is an output"},
        WrongStep{R"([["CHW", 0, "local"]])", "found an input stage, expected one that computes"},
        WrongStep{R"([["SP", 2, 0, 64, [4], 1], ["CHW", 2, "local"]])", "cached after splits"},
        WrongStep{R"([["CHR", 0, "shared", [1]]])", "reader 1: does not read stage 0"},
        WrongStep{R"([["CHR", 1, "shared", [0]]])", "reader 0, expected a stage after 1"},
        WrongStep{R"([["CHR", 1, "shared", [1]]])", "reader 1, expected a stage after 1"},
        WrongStep{R"([["RF", 2, 2, 2]])", "expected it just after a split (SP) of the same stage"},
        WrongStep{R"([["SP", 2, 0, 64, [4], 1], ["RF", 2, 0, 0]])", "rfactor of a spatial axis"},
        WrongStep{R"([["SP", 2, 2, 64, [4], 1], ["RF", 2, 2, 5]])", "axis position 5, expected -3 to 2"},
        WrongStep{R"([["CHW", 2, "local"], ["CA", 3, 2, 0]])", "an output, expected it at root"},
        WrongStep{R"([["CHW", 2, "local"], ["CHW", 2, "local"], ["CA", 2, 4, 1]])",
                  "attached outside of the loops of stage 3"},
        WrongStep{R"([["CHW", 2, "local"], ["CA", 2, 3, 0], ["FU", 3, [0, 1]]])",
                  "fuses iterators that stages are attached to"},
        WrongStep{R"([["CHW", 2, "a"], ["CHW", 2, "a"], ["CA", 2, 3, 0], ["CA", 3, 2, 0]])",
                  "attached to itself by way of"}));

}  // namespace

// Mutated schedules: each is replayed or refused with a message, and what is replayed computes all that is read.

namespace {

using testing::Mutator;
using testing::sample_records;
using testing::samples_dir;

/// Runs of the loops of `stage`, at random values of them and of those around it; every element that is read there must
/// be among those that its own stage computes then. Returns how many reads were checked.
int check_reads(LoopNest& nest, size_t stage, Mutator& random) {
  std::vector<NestAccess> accesses;
  std::vector<Affine> values;
  axis_values(nest, stage, values);
  stage_accesses(nest, stage, 0, accesses);
  int checked = 0;
  for (int place = 0; place < 3; ++place) {
    std::map<int32_t, int64_t> loops;
    const std::function<int64_t(int32_t)> value_of = [&](int32_t id) {
      const auto [at, fresh] = loops.emplace(id, 0);
      if (!fresh) return at->second;
      const int32_t variable = id < 0 ? ~id : id;
      const auto& loop = nest.variables[static_cast<size_t>(variable)];
      const int64_t extent = nest.pool.evaluate(loop.extent, value_of);
      int64_t value = static_cast<int64_t>(random.below(static_cast<size_t>(std::max<int64_t>(extent, 1))));
      if (id < 0) value += nest.pool.evaluate(loop.minimum, value_of);
      loops[id] = value;
      return value;
    };
    // Splits that do not divide run past the end, where nothing is computed. One inside of another runs into its
    // neighbour's part, which TVM's bounds leave out too.
    bool inside = true;
    std::map<int32_t, int64_t> made;
    for (const NestIterator& iterator : nest.stages[stage].iterators)
      made[iterator.variable] = value_of(iterator.variable);
    for (auto relation = nest.stages[stage].relations.rbegin(); relation != nest.stages[stage].relations.rend();
         ++relation) {
      const auto extent = [&](int32_t id) {
        return nest.pool.evaluate(nest.variables[static_cast<size_t>(id)].extent, value_of);
      };
      if (relation->kind == NestRelation::Kind::fuse) {
        made[relation->outer] = made[relation->parent] / extent(relation->inner);
        made[relation->inner] = made[relation->parent] % extent(relation->inner);
      } else {
        made[relation->parent] = made[relation->inner] + made[relation->outer] * extent(relation->inner);
        inside &= made[relation->parent] < extent(relation->parent);
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& axis = nest.variables[static_cast<size_t>(nest.stages[stage].axes[i])];
      const int64_t offset = nest.pool.evaluate(values[i], value_of) - nest.pool.evaluate(axis.minimum, value_of);
      inside &= offset >= 0 && offset < nest.pool.evaluate(axis.extent, value_of);
      const int64_t defined = nest.dag->stages[stage].axis(i).extent;
      const int64_t value = nest.pool.evaluate(values[i], value_of);
      inside &= defined == 0 || (value >= 0 && value < defined);
    }
    if (!inside) continue;
    for (const NestAccess& access : accesses) {
      if (access.memory == stage || nest.dag->stages[access.memory].input) continue;
      const auto& computed = nest.stages[access.memory];
      for (size_t d = 0; d < access.indices.size(); ++d) {
        const int64_t index = nest.pool.evaluate(access.indices[d], value_of);
        // Reads outside of the tensor are guarded by conditions.
        if (access.unknown[d] || index < 0 || index >= nest.dag->stages[access.memory].shape[d]) continue;
        const auto& axis = nest.variables[static_cast<size_t>(computed.axes[d])];
        const int64_t low = nest.pool.evaluate(axis.minimum, value_of);
        EXPECT_GE(index, low) << loops_of(nest) << nest.dag->stages[access.memory].name << " dimension " << d;
        EXPECT_LT(index, low + nest.pool.evaluate(axis.extent, value_of))
            << loops_of(nest) << nest.dag->stages[access.memory].name << " dimension " << d;
        ++checked;
      }
    }
  }
  return checked;
}

TEST(ReplayFuzz, WhatIsReadIsComputed) {
  const DagTable dags(samples_dir() / "ansor/dags.jsonl.gz");
  const auto records = sample_records();
  Mutator random(1);
  Replayer replayer;
  LoopNest nest;
  int checked = 0;
  for (size_t i = 0; i < records.size() && !HasFailure(); i += 3) {
    replayer.replay(dags.find(records[i].workload_key), records[i].schedule, nest);
    for (size_t stage = 0; stage < nest.stages.size(); ++stage) {
      const bool loops = !nest.dag->stages[stage].input && nest.stages[stage].compute_at != ComputeAt::inlined;
      if (loops) checked += check_reads(nest, stage, random);
    }
  }
  EXPECT_GT(checked, 10000);
}

TEST(ReplayFuzz, MutatedSchedulesAreReplayedOrRefused) {
  const int trials = testing::fuzz_rounds(20000);  // about a second
  const DagTable dags(samples_dir() / "ansor/dags.jsonl.gz");
  const auto records = sample_records();
  Mutator random(2);
  Replayer replayer;
  LoopNest nest;
  int replayed_count = 0, refused = 0, reads = 0;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    const TuningRecord& record = random.of(records);
    ScheduleSteps schedule = record.schedule;
    random.mutate(schedule, 4);
    // A schedule with its own DAG mostly, sometimes with another one.
    const auto& other = random.of(records);
    const auto dag = dags.find(random.below(8) == 0 ? other.workload_key : record.workload_key);
    try {
      replayer.replay(dag, schedule, nest);
      ++replayed_count;
      EXPECT_FALSE(loops_of(nest).empty());
      EXPECT_FALSE(to_text(*nest.dag).empty());
      if (trial % 8 != 0) continue;
      for (size_t stage = 0; stage < nest.stages.size(); ++stage) {
        if (nest.dag->stages[stage].input || nest.stages[stage].compute_at == ComputeAt::inlined) continue;
        reads += check_reads(nest, stage, random);
      }
    } catch (const DataError& error) {
      ++refused;
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(replayed_count, trials / 20);
  EXPECT_GT(refused, trials / 20);
  EXPECT_GT(reads, trials / 4);
  RecordProperty("replayed", replayed_count);
  RecordProperty("refused", refused);
}

TEST(ReplayFuzz, MutatedLinesAreRecordsOrErrors) {
  const int trials = testing::fuzz_rounds(20000);
  std::vector<std::string> lines;
  LineSource source(samples_dir() / "ansor/records.jsonl.gz");
  while (const auto line = source.next()) lines.emplace_back(line->text);
  Mutator random(3);
  RecordParser parser;
  TuningRecord record;
  constexpr std::string_view kBytes = "0123456789[]{}\",:.-e nullCAFSPRIHW\\";
  int read = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::string line = random.of(lines);
    if (random.below(3) == 0) line.resize(random.below(line.size()));
    for (size_t i = random.below(3) + 1; i-- > 0 && !line.empty();)
      random.of(line) = random.below(20) == 0 ? random.byte() : random.of(kBytes);
    try {
      parser.parse(line, record);
      ++read;
    } catch (const DataError& error) {
      EXPECT_STRNE(error.what(), "");
    }
  }
  EXPECT_GT(read, trials / 100);
  EXPECT_LT(read, trials);
}

TEST(ReplayFuzz, HostileSchedulesAreBounded) {
  const auto dag = testing::matmul(64, 64, 64);
  const auto message = [&](const std::string& steps) {
    return testing::message_of<DataError>([&] { testing::replayed(dag, steps); });
  };
  // Splits and fusions in turn multiply names.
  std::string names = "[";
  for (int i = 0; i < 200; ++i) names += R"(["SP", 2, 0, 0, [1, 1, 1], 1], ["FU", 2, [0, 1, 2, 3]], )";
  const LoopNest nest = testing::replayed(dag, names + R"(["PR", 2, 0, "auto_unroll_max_step$0"]])");
  EXPECT_LT(loop_name(nest, nest.stages[2].iterators[0].variable).size(), 20000u);
  std::string many = "[";
  for (int i = 0; i < 600; ++i) many += R"(["SP", 2, 0, 64, [2], 1], )";
  EXPECT_MESSAGE(message(many + R"(["CI", 1]])"));
  std::string caches = "[";
  for (int i = 0; i < 100; ++i) caches += R"(["CHW", 2, "local"], )";
  EXPECT_MESSAGE(message(caches + R"(["CI", 1]])"));
  EXPECT_THAT(message(R"([["SP", 2, 0, 64, [2147483647, 2147483647, 2147483647], 1], ["FU", 2, [0, 1, 2, 3]],
    ["AN", 2, 0, 6]])"),
              HasSubstr("2^62"));
}

}  // namespace

}  // namespace foretime::data
