/// The features of programs against TVM's own, for every program of which there are any.
#include "models/baselines/store_features/store_features.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/files/npz_reader.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/ansor/replay/replay.h"
#include "models/baselines/store_features/store_value.h"
#include "tests/data/frontends/ansor/schedules.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace foretime::models {
namespace {

using data::Affine;
using data::AffineBounds;
using data::AffinePool;
using data::ComputeDag;
using data::DagTable;
using data::floor_quotient;
using data::kAnySize;
using data::LineSource;
using data::LoopNest;
using data::NestNode;
using data::NestStatements;
using data::NpzReader;
using data::parse_compute_dag;
using data::RecordReader;
using data::Replayer;
using data::ScheduleSteps;
using data::ShapeRule;
using data::TuningRecord;
using testing::data_dir;
using testing::samples_dir;

const ShapeRule kAnyLength{{kAnySize}, "(any,)"};

/// Rows of TVM's features by line of the records, 0-based.
struct Expected {
  std::map<int64_t, std::vector<float>> rows;

  void add(const std::filesystem::path& file, const std::string& features, const std::string& ptr, bool lines) {
    const NpzReader reader(file);
    const ShapeRule matrix{{kAnySize, static_cast<int64_t>(kStoreFeatures)}, "(rows, 164)"};
    const auto values = reader.read<float>(features, matrix);
    const auto splits = reader.read<int64_t>(ptr, kAnyLength);
    std::vector<int64_t> line;
    if (lines) line = reader.read<int64_t>("line", kAnyLength);
    for (size_t p = 0; p + 1 < splits.size(); ++p) {
      const auto begin = values.begin() + splits[p] * static_cast<int64_t>(kStoreFeatures);
      const auto end = values.begin() + splits[p + 1] * static_cast<int64_t>(kStoreFeatures);
      rows[lines ? line[p] : static_cast<int64_t>(p)] = {begin, end};
    }
  }
};

bool equal(float a, float b) { return std::abs(a - b) <= 1e-5f * std::max(std::abs(b), 1e-3f); }

bool equal(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) { return equal(x, y); });
}

/// How many programs are equal, and which are not.
struct Agreement {
  int64_t programs = 0, equal_programs = 0, in_order = 0;
  std::string differences;  // the first ones

  void compare(int64_t line, const std::vector<float>& ours, const std::vector<float>& theirs) {
    ++programs;
    if (equal(ours, theirs)) {
      ++equal_programs;
      return;
    }
    const auto explain = [&](const std::string& what) {
      if (differences.size() < 40000) differences += fmt::format("line {}: {}\n", line, what);
    };
    if (ours.size() != theirs.size()) return explain(fmt::format("{} values, not {}", ours.size(), theirs.size()));
    for (size_t i = 0; i < ours.size(); ++i) {
      if (!equal(ours[i], theirs[i]))
        explain(fmt::format("row {}, column {}: {}, expected {}", i / kStoreFeatures, i % kStoreFeatures, ours[i],
                            theirs[i]));
    }
  }
};

Agreement compare(const std::filesystem::path& records, const std::filesystem::path& dags, const Expected& expected,
                  bool canonical) {
  Agreement agreement;
  const DagTable table(dags);
  RecordReader reader(records);
  TuningRecord record;
  Replayer replayer;
  LoopNest nest;
  StoreFeatures features;
  std::vector<float> rows;
  while (reader.next_with_failed(record)) {
    const auto found = expected.rows.find(record.line - 1);
    if (found == expected.rows.end()) continue;
    rows.clear();
    replayer.replay(table.find(record.workload_key), record.schedule, nest);
    features.extract(nest, record.hardware.cache_line_bytes, rows);
    std::vector<float> theirs = found->second;
    agreement.in_order += equal(rows, theirs);
    sort_store_features(rows);
    if (!canonical) sort_store_features(theirs);
    agreement.compare(record.line - 1, rows, theirs);
  }
  return agreement;
}

void expect_all_equal(const Agreement& agreement, int64_t programs) {
  EXPECT_EQ(agreement.programs, programs);
  EXPECT_EQ(agreement.equal_programs, programs) << agreement.differences;
}

TEST(StoreFeatures, SamplesAreTvms) {
  Expected expected;
  expected.add(samples_dir() / "ansor/features_per_store.npz", "X", "ptr", false);
  const Agreement agreement =
      compare(samples_dir() / "ansor/records.jsonl.gz", samples_dir() / "ansor/dags.jsonl.gz", expected, false);
  expect_all_equal(agreement, 4836);
  // TVM's rows come in the order of a hash table over addresses: that of its run, in most programs the last store
  // first.
  EXPECT_EQ(agreement.in_order, 4311);
}

/// Of the states of tools/tuner/measure/golden_states.py those that come with TVM's features.
Agreement compare_golden(const std::string& name) {
  const auto folder = testing::source_dir() / "tests/data/frontends/ansor";
  const DagTable table(folder / (name + "_dags.jsonl.gz"));
  LineSource lines(folder / (name + "_states.jsonl.gz"));
  Agreement agreement;
  Replayer replayer;
  LoopNest nest;
  StoreFeatures features;
  std::vector<float> rows;
  while (const auto line = lines.next()) {
    const auto golden = nlohmann::json::parse(line->text);
    if (!golden.contains("features")) continue;
    std::vector<float> theirs;
    for (const auto& row : golden.at("features")) {
      const auto values = row.get<std::vector<float>>();
      theirs.insert(theirs.end(), values.begin(), values.end());
    }
    rows.clear();
    try {
      replayer.replay(table.find(golden.at("workload_key")), testing::steps_of(golden.at("steps").dump()), nest);
      features.extract(nest, 64, rows);
    } catch (const DataError& error) {
      ADD_FAILURE() << golden.at("task") << ": " << error.what();
    }
    sort_store_features(rows);
    sort_store_features(theirs);
    agreement.compare(golden.at("line"), rows, theirs);
  }
  return agreement;
}

TEST(StoreFeatures, OperatorsAreTvms) {
  const auto agreement = compare_golden("operators");
  EXPECT_EQ(agreement.programs, 124);  // TVM has none of one program
  // The others read at indices that depend on data, or are divided twice (resizing, embedding bags, group norm), whose
  // ranges TVM takes for all numbers of 32 bits: their sizes overflow there.
  EXPECT_EQ(agreement.equal_programs, 115) << agreement.differences;
}

TEST(StoreFeatures, GoldenAndTrainingProgramsAreTvms) {
  FORETIME_NEEDS_DATA();
  const auto tenset = data_dir() / "tenset";
  Expected golden, others;
  golden.add(tenset / "features_golden.npz", "features", "row_splits", true);
  for (const char* file : {"features_train.npz", "features_eval.npz"})
    others.add(tenset / file, "features", "row_splits", true);
  const size_t of_experiment = others.rows.size();
  others.rows.insert(golden.rows.begin(), golden.rows.end());
  const Agreement agreement = compare(tenset / "records.jsonl.gz", tenset / "dags.jsonl.gz", others, true);
  EXPECT_EQ(golden.rows.size(), 694u);
  EXPECT_EQ(of_experiment, 30384u);
  expect_all_equal(agreement, static_cast<int64_t>(others.rows.size()));
}

/// What a form computes, operation by operation.
int64_t value_of(std::span<const IndexOperation> operations, const std::map<int64_t, int64_t>& variables) {
  using Kind = IndexOperation::Kind;
  std::vector<int64_t> stack;
  for (const auto& operation : operations) {
    if (operation.kind == Kind::constant || operation.kind == Kind::variable) {
      stack.push_back(operation.kind == Kind::constant ? operation.value : variables.at(operation.value));
      continue;
    }
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    switch (operation.kind) {
      case Kind::add: a += b; break;
      case Kind::subtract: a -= b; break;
      case Kind::multiply: a *= b; break;
      case Kind::divide: a = floor_quotient(a, b); break;
      case Kind::modulo: a -= b * floor_quotient(a, b); break;
      case Kind::minimum: a = std::min(a, b); break;
      case Kind::maximum: a = std::max(a, b); break;
      default: ADD_FAILURE() << "an operation that indices do not have";
    }
  }
  return stack.back();
}

TEST(PostfixExpressions, ValuesAndBoundsAreThoseOfTheIndex) {
  const DagTable table(samples_dir() / "ansor/dags.jsonl.gz");
  const auto records = testing::sample_records();
  testing::Mutator random(5);
  Replayer replayer;
  LoopNest nest;
  NestStatements statements;
  int64_t checked = 0;
  for (size_t i = 0; i < records.size() && !HasFailure(); i += 7) {
    replayer.replay(table.find(records[i].workload_key), records[i].schedule, nest);
    nest_statements(nest, statements);
    PostfixExpressions forms(nest.pool);
    std::vector<int64_t> largest(2 * nest.variables.size(), 0);
    std::map<int64_t, int64_t> loops;
    for (const NestNode& node : statements.nodes) {
      if (node.kind != NestNode::Kind::loop) continue;
      largest[static_cast<size_t>(node.variable)] = node.count - 1;
      loops[node.variable] = static_cast<int64_t>(random.below(static_cast<size_t>(node.count)));
    }
    for (const Affine& value : statements.axis_values) {
      const auto form = forms.write(value);
      const int64_t expected = nest.pool.evaluate(value, [&](int32_t id) { return loops.at(id); });
      EXPECT_EQ(value_of(forms.operations(form), loops), expected);
      const AffineBounds bounds = forms.bounds(form, largest);
      EXPECT_LE(bounds.low, expected);
      EXPECT_GE(bounds.high, expected);
      // What TVM takes operation by operation is never less than what can be.
      const AffineBounds tight = nest.pool.bounds(value);
      EXPECT_LE(bounds.low, tight.low);
      EXPECT_GE(bounds.high, tight.high);
      ++checked;
    }
  }
  EXPECT_GT(checked, 5000);
}

TEST(PostfixExpressions, AreWrittenAsTvmWritesThem) {
  AffinePool pool;
  PostfixExpressions forms(pool);
  const Affine v = pool.variable(0, {0, 4031}), c = pool.variable(1, {0, 3});
  // v // 21 · 12 + v % 3 · 4 + c: three products of which one is none, three divisions, two sums.
  const Affine rest = pool.floor_modulo(v, Affine::of(3));
  const Affine sum = pool.add(pool.add(c, pool.scale(rest, 4)), pool.scale(pool.floor_divide(v, 21), 12));
  IntegerOperations counts;
  const auto form = forms.write(sum);
  forms.count(form, counts);
  EXPECT_EQ(counts.add_subtract, 2);
  EXPECT_EQ(counts.multiply, 2);
  EXPECT_EQ(counts.divide_modulo, 2);
  bool found = false;
  EXPECT_EQ(forms.coefficient(form, 1, found), 1);
  EXPECT_TRUE(found);
  EXPECT_EQ(forms.coefficient(form, 0, found), 4);  // the last product after the variable
  EXPECT_TRUE(forms.mentions(form, 0));
  EXPECT_FALSE(forms.mentions(form, 64));
  // A remainder of a range stays a difference.
  const Affine taken = pool.scale(pool.floor_divide(v, 21), 21);
  counts = {};
  forms.count(forms.write(pool.subtract(v, taken)), counts);
  EXPECT_EQ(counts.divide_modulo, 1);
  EXPECT_EQ(counts.add_subtract, 0);
  counts = {};
  forms.count(forms.write(pool.subtract(v, taken), taken), counts);
  EXPECT_EQ(counts.divide_modulo, 1);
  EXPECT_EQ(counts.add_subtract, 1);
}

TEST(PostfixExpressions, EndlessOnesAreRefused) {
  // Each level has the one below twice.
  AffinePool pool;
  PostfixExpressions forms(pool);
  Affine nested = pool.variable(0, {0, 1000});
  for (int32_t level = 1; level < 60; ++level)
    nested = pool.minimum(nested, pool.subtract(pool.variable(level, {0, 2000}), nested));
  EXPECT_THROW(forms.write(nested), DataError);
  forms.clear();
  EXPECT_EQ(forms.write(pool.variable(0, {0, 1000})).size, 1u);
}

TEST(StoreFeatures, UnknownExpressionsAreRefused) {
  const std::string table = fmt::format(
      R"json({{"workload_key": "[\"odd\", 4]", "stages": [{}, {{"id": 1, "name": "B", "dtype": "float32", "shape": [4],
      "kind": "compute", "axes": [["i", 4]], "reduce_axes": [], "combiner": null, "body": "A[i] ?? 1", "tag": "",
      "reads": [{{"op": 0, "name": "A", "indices": ["i"]}}], "is_output": true}}]}})json",
      testing::input_stage(0, "A", "[4]"));
  LoopNest nest = testing::replayed(std::make_shared<const ComputeDag>(parse_compute_dag(table)), "[]");
  StoreFeatures features;
  std::vector<float> rows;
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { features.extract(nest, 64, rows); }));
  EXPECT_TRUE(rows.empty());
}

TEST(StoreFeatures, ThreadsOfGpusCount) {
  LoopNest nest = testing::replayed(testing::matmul(64, 32, 16), R"([["SP", 2, 0, 64, [16], 1], ["AN", 2, 0, 5],
    ["AN", 2, 1, 6]])");
  StoreFeatures features;
  std::vector<float> rows;
  ASSERT_EQ(features.extract(nest, 64, rows), 1);
  constexpr size_t kIsGpu = 16 + 3 * 11, kBlockX = kIsGpu + 1, kThreadX = kIsGpu + 4;
  EXPECT_EQ(rows[kIsGpu], 1.0f);
  EXPECT_FLOAT_EQ(rows[kBlockX], std::log2(5.0f));
  EXPECT_FLOAT_EQ(rows[kThreadX], std::log2(17.0f));
  EXPECT_FLOAT_EQ(rows[kThreadX + 1], 1.0f);
}

TEST(StoreFeatures, MutatedSchedulesHaveFeaturesOrAreRefused) {
  const int trials = testing::fuzz_rounds(10000);
  const DagTable table(samples_dir() / "ansor/dags.jsonl.gz");
  const auto records = testing::sample_records();
  testing::Mutator random(4);
  Replayer replayer;
  LoopNest nest;
  StoreFeatures features;
  std::vector<float> rows;
  int extracted = 0;
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    const TuningRecord& record = random.of(records);
    ScheduleSteps schedule = record.schedule;
    random.mutate(schedule, 4);
    const auto& other = random.below(8) == 0 ? random.of(records) : record;
    rows.clear();
    try {
      replayer.replay(table.find(other.workload_key), schedule, nest);
      const int64_t count = features.extract(nest, 64, rows);
      EXPECT_EQ(rows.size(), static_cast<size_t>(count) * kStoreFeatures);
      EXPECT_GT(count, 0);
      EXPECT_TRUE(std::ranges::none_of(rows, [](float value) { return std::isnan(value); }));
      ++extracted;
    } catch (const DataError& error) {
      EXPECT_STRNE(error.what(), "");
      EXPECT_TRUE(rows.empty());
    }
  }
  EXPECT_GT(extracted, trials / 20);
}

}  // namespace
}  // namespace foretime::models
