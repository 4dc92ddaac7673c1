/// Mutated schedules: each is replayed or refused with a message, and what is replayed computes all that is read.
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "tests/data/frontends/ansor/mutator.h"
#include "tests/data/frontends/ansor/tables.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using foretime::testing::samples_dir;
using testing::Mutator;
using testing::sample_records;

/// Runs of the loops of `stage`, at random values of them and of those around it; every element that is read there must
/// be among those that its own stage computes then. Returns how many reads were checked.
int check_reads(LoopNest& nest, size_t stage, Mutator& random) {
  std::vector<NestAccess> accesses;
  std::vector<Affine> values;
  axis_values(nest, stage, values);
  stage_accesses(nest, stage, accesses);
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
      if (access.stage == stage || nest.dag->stages[access.stage].input) continue;
      const auto& computed = nest.stages[access.stage];
      for (size_t d = 0; d < access.indices.size(); ++d) {
        const int64_t index = nest.pool.evaluate(access.indices[d], value_of);
        // Reads outside of the tensor are guarded by conditions.
        if (access.unknown[d] || index < 0 || index >= nest.dag->stages[access.stage].shape[d]) continue;
        const auto& axis = nest.variables[static_cast<size_t>(computed.axes[d])];
        const int64_t low = nest.pool.evaluate(axis.minimum, value_of);
        EXPECT_GE(index, low) << to_text(nest) << nest.dag->stages[access.stage].name << " dimension " << d;
        EXPECT_LT(index, low + nest.pool.evaluate(axis.extent, value_of))
            << to_text(nest) << nest.dag->stages[access.stage].name << " dimension " << d;
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
  // FORETIME_FUZZ: how many schedules; the default takes about a second.
  const char* asked = std::getenv("FORETIME_FUZZ");
  const int trials = asked != nullptr ? std::atoi(asked) : 20000;
  const DagTable dags(samples_dir() / "ansor/dags.jsonl.gz");
  const auto records = sample_records();
  Mutator random(2);
  Replayer replayer;
  LoopNest nest;
  int replayed_count = 0, refused = 0, reads = 0;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    const TuningRecord& record = records[random.below(records.size())];
    ScheduleSteps schedule = record.schedule;
    for (size_t i = random.below(4) + 1; i-- > 0;) random.mutate(schedule);
    // A schedule with its own DAG mostly, sometimes with another one.
    const auto& other = records[random.below(records.size())];
    const auto dag = dags.find(random.below(8) == 0 ? other.workload_key : record.workload_key);
    try {
      replayer.replay(dag, schedule, nest);
      ++replayed_count;
      EXPECT_FALSE(to_text(nest).empty());
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
  const char* asked = std::getenv("FORETIME_FUZZ");
  const int trials = asked != nullptr ? std::atoi(asked) : 20000;
  std::vector<std::string> lines;
  LineSource source(samples_dir() / "ansor/records.jsonl.gz");
  while (const auto line = source.next()) lines.emplace_back(line->text);
  Mutator random(3);
  TuningRecord record;
  constexpr char kBytes[] = "0123456789[]{}\",:.-e nullCAFSPRIHW\\";
  int read = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::string line = lines[random.below(lines.size())];
    if (random.below(3) == 0) line.resize(random.below(line.size()));
    for (size_t i = random.below(3) + 1; i-- > 0 && !line.empty();)
      line[random.below(line.size())] =
          random.below(20) == 0 ? static_cast<char>(random.below(256)) : kBytes[random.below(sizeof(kBytes) - 1)];
    try {
      parse_record(line, record);
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
  const auto refused = [&](const std::string& steps, const char* message) {
    try {
      testing::replayed(dag, steps);
    } catch (const DataError& error) {
      return std::string(error.what()).find(message) != std::string::npos;
    }
    return false;
  };
  // Splits and fusions in turn multiply names.
  std::string names = "[";
  for (int i = 0; i < 200; ++i) names += R"(["SP", 2, 0, 0, [1, 1, 1], 1], ["FU", 2, [0, 1, 2, 3]], )";
  const LoopNest nest = testing::replayed(dag, names + R"(["PR", 2, 0, "auto_unroll_max_step$0"]])");
  EXPECT_LT(iterator_name(nest, nest.stages[2].iterators[0]).size(), 20000u);
  EXPECT_LT(loop_name(nest, nest.stages[2].iterators[0].variable).size(), 20000u);
  std::string many = "[";
  for (int i = 0; i < 600; ++i) many += R"(["SP", 2, 0, 64, [2], 1], )";
  EXPECT_TRUE(refused(many + R"(["CI", 1]])", "at most 512 iterators"));
  std::string caches = "[";
  for (int i = 0; i < 100; ++i) caches += R"(["CHW", 2, "local"], )";
  EXPECT_TRUE(refused(caches + R"(["CI", 1]])", "at most 64 inserted stages"));
  EXPECT_TRUE(refused(R"([["SP", 2, 0, 64, [2147483647, 2147483647, 2147483647], 1], ["FU", 2, [0, 1, 2, 3]],
    ["AN", 2, 0, 6]])",
                      "2^62"));
}

}  // namespace
}  // namespace foretime::data
