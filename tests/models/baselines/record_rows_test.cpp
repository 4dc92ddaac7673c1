/// Features of tuning records as rows of the baseline: the same as those of TVM's feature files.
#include "models/baselines/record_rows.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/xgboost_rows.h"
#include "models/baselines/program_rows.h"
#include "models/baselines/store_features/store_features.h"
#include "models/baselines/throughput_model.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::models {
namespace {

using testing::data_dir;
using ::testing::HasSubstr;
using testing::message_of;
using testing::samples_dir;
using testing::Scratch;

const std::filesystem::path kRecords = "ansor/records.jsonl.gz", kDags = "ansor/dags.jsonl.gz";

/// Values that are not the same as TVM's but for rounding.
int64_t differences(const ProgramRows& rows, const ProgramRows& expected) {
  if (rows.features.size() != expected.features.size()) return -1;
  int64_t count = 0;
  for (size_t i = 0; i < rows.features.size(); ++i) {
    const float a = rows.features[i], b = expected.features[i];
    count += std::abs(a - b) > 1e-5f * std::max(std::abs(b), 1e-3f);
  }
  return count;
}

TEST(RecordRows, AreThoseOfTheFeatureFile) {
  const auto ours = read_record_rows(samples_dir() / kRecords, samples_dir() / kDags);
  auto theirs = read_statement_rows(samples_dir() / "ansor/features_per_store.npz");
  EXPECT_EQ(ours.counts.records, 4836);
  EXPECT_EQ(ours.without_dag + ours.without_features, 0);
  ASSERT_EQ(ours.rows.programs(), theirs.programs());
  EXPECT_EQ(ours.rows.columns, theirs.columns);
  // The file has programs as they stand in the records, and rows in TVM's order.
  theirs = select(theirs, ours.lines);
  for (int64_t p = 0; p < theirs.programs(); ++p) {
    const auto first = static_cast<size_t>(theirs.row_ptr[static_cast<size_t>(p)] * theirs.columns);
    sort_store_features(std::span(theirs.features).subspan(first, theirs.rows_of(p).size()));
  }
  EXPECT_EQ(ours.rows.row_ptr, theirs.row_ptr);
  EXPECT_EQ(differences(ours.rows, theirs), 0);
  for (size_t p = 0; p < theirs.runtimes.size(); ++p)
    EXPECT_NEAR(ours.rows.runtimes[p], theirs.runtimes[p], 1e-5 * theirs.runtimes[p]);  // records are rounded
  EXPECT_EQ(ours.rows.workload_names.size(), 50u);
  EXPECT_TRUE(std::is_sorted(ours.rows.workload_names.begin(), ours.rows.workload_names.end()));
  EXPECT_TRUE(std::is_sorted(ours.rows.workload.begin(), ours.rows.workload.end()));
}

TEST(RecordRows, SomeLines) {
  const auto some = read_record_rows(samples_dir() / kRecords, samples_dir() / kDags, {3, 0, 4835});
  EXPECT_EQ(some.rows.programs(), 3);
  EXPECT_EQ(rows_of_lines(some, {0, 3}).programs(), 2);
}

TEST(RecordRows, WhatIsWrongIsNamed) {
  const Scratch scratch;
  const auto split = scratch.path() / "split.json";
  const auto reading = [&](const std::string& text) {
    std::ofstream(split) << text;
    return message_of<DataError>([&] { read_record_split(split); });
  };
  EXPECT_MESSAGE(message_of<DataError>([&] { read_record_split(scratch.path() / "none.json"); }));
  EXPECT_THAT(reading("{"), HasSubstr("no JSON"));
  EXPECT_MESSAGE(reading("[]"), "train_lines");
  EXPECT_THAT(reading(R"({"train_lines": {"k": [1]}, "eval_lines": {"k": [-1]}})"), HasSubstr("0-based lines"));
  EXPECT_MESSAGE(reading(R"({"train_lines": {"k": [1]}, "eval_lines": {"j": [1]}})"));
  EXPECT_THAT(reading(R"({"train_lines": {"k": []}, "eval_lines": {"j": [1]}})"), HasSubstr("no lines"));
  EXPECT_EQ(reading(R"({"train_lines": {"k": [1, 2]}, "eval_lines": {"j": [3]}})"), "no exception");
  EXPECT_MESSAGE(message_of<DataError>([&] {
    read_record_rows(samples_dir() / kRecords, samples_dir() / kDags, {1, 4836});
  }));
  // Compute DAGs of other workloads.
  const auto other = scratch.path() / "dags.jsonl";
  std::ofstream(other) << R"json({"workload_key": "[\"other\", 4]", "stages": []})json"
                       << "\n";
  EXPECT_NE(message_of<DataError>([&] { read_record_rows(samples_dir() / kRecords, other); }), "no exception");
}

/// TVM's XGBModel as shipped, on the same programs, from features that were computed here.
TEST(RecordRows, TensetAsShippedByTvm) {
  FORETIME_NEEDS_DATA();
  const auto tenset = data_dir() / "tenset";
  const auto split = read_record_split(tenset / "xgb_baseline.json");
  RecordLines lines = split.train;
  lines.insert(split.test.begin(), split.test.end());
  const auto all = read_record_rows(tenset / "records.jsonl.gz", tenset / "dags.jsonl.gz", lines);
  const auto train = rows_of_lines(all, split.train), test = rows_of_lines(all, split.test);
  EXPECT_EQ(train.programs(), 19228);
  EXPECT_EQ(test.programs(), 11156);
  EXPECT_EQ(differences(train, read_statement_rows(tenset / "features_train.npz")), 0);
  EXPECT_EQ(differences(test, read_statement_rows(tenset / "features_eval.npz")), 0);
  auto settings = throughput_preset("tvm");
  settings.rounds = 150;  // the other half changes no figure: gamma stops the trees
  auto scores = ThroughputModel::train(train, settings).predict(test);
  for (double& score : scores) score = -score;
  const auto report = rank_programs(test, scores);
  std::ifstream stream(tenset / "xgb_baseline.json");
  const auto published = nlohmann::json::parse(stream).at("results").at("xgb_tvm_default_params");
  EXPECT_EQ(report.workloads, 121);
  EXPECT_NEAR(report.pairwise_accuracy, published.at("pair_acc").get<double>(), 0.005);
  EXPECT_NEAR(report.kendall_tau, published.at("kendall_tau_b").get<double>(), 0.01);
  EXPECT_NEAR(report.top1_score, published.at("top1").get<double>(), 0.02);
  EXPECT_NEAR(report.top5_score, published.at("top5").get<double>(), 0.02);
}

}  // namespace
}  // namespace foretime::models
