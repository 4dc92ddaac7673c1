#include "experiments/results.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/csv.h"
#include "base/error.h"
#include "coordinator/run_directory.h"
#include "experiments/report.h"
#include "metrics/metrics.h"
#include "tests/experiments/experiment_support.h"
#include "tests/support/scratch.h"

namespace foretime::experiments {
namespace {

using ::testing::HasSubstr;

const char* kRankings =
    "set,group,rank,candidate,id,score,predicted_runtime,runtime\n"
    "test,C10,0,2,c,1,0.001,0.002\n"
    "test,C10,1,0,a,2,0.003,0.003\n"
    "test,C3,0,1,\"b,1\",1,0.004,0.005\n"
    "test,C3,1,5,d,2,0.005,0.004\n"
    "test,C3,2,6,e,3,0.006,0.010\n"
    "holdout,C1,0,0,x,1,1,1\n";

class ResultsTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  foretime::testing::Scratch scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(ResultsTest, ReadsTheRowsOfOneSet) {
  const auto groups = read_rankings(write("rankings.csv", kRankings), {"test"});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[1].group, "C3");
  EXPECT_EQ(groups[1].ids, (std::vector<std::string>{"b,1", "d", "e"}));
  EXPECT_EQ(groups[1].measured, (std::vector<double>{0.005, 0.004, 0.010}));
  EXPECT_THROW(read_rankings(folder_ / "rankings.csv", {"valid"}), DataError);
  EXPECT_THROW(read_rankings(write("half.csv", std::string(kRankings) + "test,C3,3,7,f,9,,0.1\n"), {"test"}),
               DataError);
}

TEST_F(ResultsTest, RankingMetricsAreMeansOverGroupsAndErrorsOverCandidates) {
  const auto groups = read_rankings(write("rankings.csv", kRankings), {"test"});
  const auto metrics = metrics_of(groups, data::CandidateKind::program);
  EXPECT_NEAR(metrics.at("mae"), (0.001 + 0 + 0.001 + 0.001 + 0.004) / 5, 1e-15);
  EXPECT_NEAR(metrics.at("rmse"), std::sqrt((1e-6 + 0 + 1e-6 + 1e-6 + 16e-6) / 5), 1e-15);
  EXPECT_NEAR(metrics.at("kendall_tau"), (1.0 + 1.0 / 3) / 2, 1e-15);
  EXPECT_NEAR(metrics.at("pairwise_accuracy"), (1.0 + 2.0 / 3) / 2, 1e-15);
  EXPECT_NEAR(metrics.at("top1_score"), (1 + 0.8) / 2, 1e-15);
}

TEST_F(ResultsTest, CandidatesThatFailedHaveNoWeightInErrors) {
  const GroupPredictions one{"one", {"p", "q"}, {1, 2}, {1, std::numeric_limits<double>::infinity()}, {2, 2}};
  const GroupPredictions other{"other", {"p", "q", "r"}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}};
  EXPECT_NEAR(metrics_of({one, other}, data::CandidateKind::program).at("mae"), (1.0 + 0 + 0 + 0) / 4, 1e-15);
}

TEST_F(ResultsTest, JoinedSeedsAreMeansWhateverTheirOrder) {
  GroupPredictions a{"g", {"p", "q", "r"}, {1, 2, 3}, {1, 2, 3}, {1, 4, 9}};
  GroupPredictions b{"g", {"r", "p", "q"}, {3, 1, 2}, {3, 1, 2}, {1, 4, 1}};
  const auto both = joined({{a}, {b}});
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].ids, a.ids);
  EXPECT_NEAR(both[0].predicted[0], 2, 1e-12);
  EXPECT_NEAR(both[0].predicted[1], 2, 1e-12);
  EXPECT_NEAR(both[0].predicted[2], 3, 1e-12);
  EXPECT_EQ(both[0].scores, both[0].predicted);
  a.predicted.clear();
  b.predicted.clear();
  b.scores = {60, 20, 40};  // another scale, the same order
  const auto ranked = joined({{a}, {b}});
  EXPECT_TRUE(ranked[0].predicted.empty());
  EXPECT_NEAR(ranked[0].scores[0], -std::sqrt(1.5), 1e-12);
  EXPECT_NEAR(ranked[0].scores[1], 0, 1e-12);
  b.ids = {"r", "p", "x"};
  EXPECT_TRUE(joined({{a}, {b}}).empty());
  EXPECT_TRUE(joined({{a}, {}}).empty());
}

TEST_F(ResultsTest, ASecondMeasurementLosesItsDriftAlone) {
  const Predictions measured = {{"g", {"p", "q", "r", "s"}, {}, {1, 2, 4, 8}, {}}};
  const auto with = as_prediction(measured, {{"p", 1.1}, {"q", 2.2}, {"r", 4.4 * 1.5}, {"z", 9}}, false);
  EXPECT_NEAR(with.drift, 1.1, 1e-12);
  EXPECT_EQ(with.candidates, 3U);
  EXPECT_EQ(with.groups[0].predicted[0], 1.1);
  const auto without = as_prediction(measured, {{"p", 1.1}, {"q", 2.2}, {"r", 4.4 * 1.5}, {"z", 9}}, true);
  EXPECT_NEAR(without.groups[0].predicted[0], 1, 1e-12);
  EXPECT_NEAR(without.groups[0].predicted[2], 6, 1e-12);
  EXPECT_EQ(without.groups[0].measured, (std::vector<double>{1, 2, 4}));
}

TEST_F(ResultsTest, ReportsTablesAndFilesOfWhatIsThere) {
  const auto experiment = testing::parse_experiment(R"(
title: The title
overrides: {data: {format: programs, train: [a.npz], test: [b.npz]}}
fractions: [0.5, 1]
seeds: 2
metrics: [mae, kendall_tau]
entries: [{label: "A, one"}, {label: B}, {label: mean, kind: mean}]
references: [{label: before, mae: 0.25}]
)");
  const auto trials = trials_of(experiment, folder_ / "out");
  auto results = begin_results(experiment, trials.size());
  for (const auto& trial : trials) {
    if (trial.entry == 1 && trial.fraction < 1) continue;  // not there yet
    const auto file = trial.folder.lexically_relative(folder_) / "rankings.csv";
    auto text = std::string(kRankings);
    if (trial.seed == 2) text.replace(text.find("0.006,0.010"), 11, "0.008,0.010");
    write(file.string(), text);
    results.add(trial, trial.folder, 1.5);
  }
  const auto spread = results.spread(0, 1, "mae");
  EXPECT_EQ(spread.count, 2U);
  EXPECT_NEAR(spread.high, 1.4, 1e-12);  // milliseconds
  EXPECT_NEAR(spread.low, 1.0, 1e-12);
  EXPECT_NEAR(spread.deviation, 0.4 / std::sqrt(2), 1e-12);
  EXPECT_EQ(results.spread(1, 0.5, "mae").count, 0U);
  EXPECT_NEAR(class_spread(results, 0, 1, "kendall_tau", {"C3"}).mean, 1.0 / 3, 1e-12);
  EXPECT_EQ(results.groups(), (std::vector<std::string>{"C3", "C10"}));

  const auto out = folder_ / "report";
  const auto files = write_report(results, out);
  EXPECT_EQ(files, (std::vector<std::string>{"results.csv", "groups.csv", "predictions.csv", "summary.md"}));
  const auto rows = read_csv(out / "results.csv");
  double sum = 0;
  int found = 0;
  for (size_t r = 0; r < rows.rows.size(); ++r) {
    const auto& row = rows.rows[r];
    if (row[0] != "A, one" || row[2] != "1" || row[4] != "mae" || row[3] == "joined") continue;
    EXPECT_EQ(row[5], "ms");
    sum += csv_number(rows, r, 6);
    ++found;
  }
  EXPECT_EQ(found, 2);
  EXPECT_NEAR(sum, 2.4, 1e-12);
  EXPECT_EQ(read_csv(out / "predictions.csv").rows.size(), 6U * 5);  // three entries, two seeds
  EXPECT_EQ(read_csv(out / "groups.csv").rows.size(), 10U * 2);
  std::ifstream stream(out / "summary.md");
  const std::string summary((std::istreambuf_iterator<char>(stream)), {});
  for (const char* text :
       {"# The title", "10 of 12 trials", "| A, one | 2 | 1.2 ± 0.28 |", "| before |  | 0.25 | - |", "| C10 |"})
    EXPECT_THAT(summary, HasSubstr(text)) << text << "\n" << summary;
}

TEST_F(ResultsTest, SeveralSetsKeepTheirNames) {
  const auto text =
      std::string(kRankings) + "valid,C1,0,0,x,1,1,1\nvalid,C1,1,1,y,2,1,2\ntest,U,0,4,u,3,,\ntest,U,1,2,v,4,,\n";
  const auto both = read_rankings(write("sets.csv", text), {"valid", "holdout"});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].group, "C1, holdout");
  EXPECT_EQ(both[1].group, "C1, valid");
  EXPECT_EQ(both[1].name, "C1");
  EXPECT_EQ(both[1].set, "valid");
  EXPECT_EQ(both[1].ids.size(), 2U);
  EXPECT_EQ(read_rankings(folder_ / "sets.csv", {"test"}).size(), 2U) << "without run times nothing is measured";
  const auto unlabelled = read_unlabelled(folder_ / "sets.csv");
  ASSERT_EQ(unlabelled.size(), 1U);
  EXPECT_EQ(unlabelled[0].ids, (std::vector<std::string>{"4", "2"}));
  EXPECT_TRUE(unlabelled[0].measured.empty());
}

TEST_F(ResultsTest, AccuracyIsTheContestsScore) {
  const GroupPredictions group{"g", {"p", "q", "r", "s"}, {1, 3, 2, 4}, {1, 2, 3, 4}, {}};
  const auto layout = metrics_of(group, data::CandidateKind::layout);
  EXPECT_EQ(layout.at("accuracy"), layout.at("kendall_tau"));
  EXPECT_EQ(layout.at("contest_score"), layout.at("kendall_tau"));
  const auto tile = metrics_of(group, data::CandidateKind::tile);
  EXPECT_EQ(tile.at("accuracy"), 1 - tile.at("top5_slowdown"));
  EXPECT_FALSE(metrics_of(group, data::CandidateKind::program).contains("accuracy"));
}

TEST_F(ResultsTest, ColumnsAreMetricsOverTheirGroups) {
  const auto experiment = testing::parse_experiment(R"(
overrides: {data: {format: layout, train: [a.npz], valid: [b.npz], holdout: 0.2}}
seeds: 2
set: [test, holdout]
columns:
  - {metric: kendall_tau, title: all}
  - {metric: kendall_tau, set: test, groups: ["C1*"]}
  - {metric: opa, set: holdout, title: held}
  - {metric: seconds}
  - {metric: memory}
entries: [{label: A}, {label: ceiling, kind: ceiling}]
references: [{label: known, all: 0.5, kendall_tau: 0.25, opa: 0.75}]
)");
  EXPECT_EQ(experiment.metrics, (std::vector<std::string>{"kendall_tau", "opa", "seconds", "memory"}));
  const auto trials = trials_of(experiment, folder_);
  auto results = begin_results(experiment, trials.size());
  for (size_t t = 0; t < trials.size(); ++t) {
    // What is held out is another candidate with each seed, so it cannot be joined; the rest can.
    const auto held = trials[t].seed == 1 ? "holdout,C1,1,1,y,2,1,2\n" : "holdout,C1,1,1,z,0.5,1,2\n";
    const auto folder = trials[t].folder.lexically_relative(folder_).string();
    write(folder + "/rankings.csv", std::string(kRankings) + held);
    coordinator::write_run_resources(trials[t].folder, {10.0 + static_cast<double>(t), 100, 200});
    results.add(trials[t], trials[t].folder, 1);
  }
  EXPECT_EQ(results.trials.size(), 4U);
  const auto spreads = column_spreads(results, 0, 1);
  ASSERT_EQ(spreads.size(), 5U);
  EXPECT_EQ(spreads[0].count, 2U);
  const auto groups = results.trials[0].groups;  // the slow way
  Predictions one;
  for (const auto& group : groups) {
    if (group.name.starts_with("C1") && group.set == "test") one.push_back(group);
  }
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].group, "C10, test");
  EXPECT_EQ(spreads[1].mean, metrics_of(one, data::CandidateKind::layout).at("kendall_tau"));
  EXPECT_EQ(column_values(results, results.trials[0])[2], 1);
  EXPECT_EQ(spreads[2].mean, 0.5);
  EXPECT_EQ(spreads[3].low, 10);
  EXPECT_EQ(spreads[4].mean, 200);
  EXPECT_EQ(results.spread(0, 1, "memory").mean, 200);
  const auto joined = joined_columns(results, 0, 1);
  EXPECT_TRUE(std::isnan(joined[0]));
  EXPECT_EQ(joined[1], 1);
  EXPECT_TRUE(std::isnan(joined[2]));
  const auto known = reference_columns(results, experiment.references[0]);
  EXPECT_EQ(known[0], 0.5);
  EXPECT_TRUE(std::isnan(known[1])) << "a value of all groups is none of some";
  EXPECT_TRUE(std::isnan(known[2]));
  const auto table = metrics_table(results);
  EXPECT_EQ(table[0],
            (std::vector<std::string>{"", "seeds", "all", "Kendall's τ-b", "held", "seconds", "memory (MiB)"}));
  EXPECT_EQ(table[1][5].substr(0, 2), "11");
  EXPECT_THAT(columns_csv(results), HasSubstr("A,model,1,1,held,opa,holdout,1\n"));
}

TEST_F(ResultsTest, FoldsBecomeOneResult) {
  auto experiment = testing::parse_experiment(R"(
overrides: {data: {format: layout, train: [a.npz], test: [b.npz]}}
metrics: [kendall_tau]
entries: [{label: A}]
)");
  experiment.folds = {2, {"groups"}};
  auto results = begin_results(experiment, 2);
  const std::string head = "set,group,rank,candidate,id,score,predicted_runtime,runtime\n";
  write("f0/rankings.csv", head + "test,z,0,0,,1,,1\ntest,z,1,1,,2,,2\n");
  write("f1/rankings.csv", head + "test,b,0,0,,1,,2\ntest,b,1,1,,2,,1\n");
  coordinator::write_run_resources(folder_ / "f0", {10, 50, 60});
  coordinator::write_run_resources(folder_ / "f1", {5, 90, 100});
  results.add({0, 1, 1, {}, {}, 0}, folder_ / "f0", 0);
  EXPECT_TRUE(results.trials.empty());
  EXPECT_EQ(results.complete, 1U);
  results.add({0, 1, 1, {}, {}, 1}, folder_ / "f1", 0);
  ASSERT_EQ(results.trials.size(), 1U);
  const auto& trial = results.trials[0];
  EXPECT_EQ(results.groups(), (std::vector<std::string>{"b", "z"}));
  EXPECT_EQ(trial.groups.front().group, "b");
  EXPECT_EQ(trial.metrics.at("kendall_tau"), 0);
  EXPECT_EQ(trial.metrics.at("seconds"), 15);
  EXPECT_EQ(trial.metrics.at("memory"), 100);
  EXPECT_EQ(trial.folders.size(), 2U);
}

TEST_F(ResultsTest, ResourcesAreReadBackAndDamageIsNone) {
  EXPECT_FALSE(coordinator::read_run_resources(folder_));
  coordinator::write_run_resources(folder_, {1.5, 20, 30});
  EXPECT_EQ(coordinator::read_run_resources(folder_)->seconds, 1.5);
  EXPECT_EQ(coordinator::read_run_resources(folder_)->all_memory, 30);
  for (const char* text : {"", "[]", "{\"seconds\": 1}", "{\"seconds\": \"1\", \"memory_mib\": 2}"}) {
    write("resources.json", text);
    EXPECT_FALSE(coordinator::read_run_resources(folder_)) << text;
  }
  const coordinator::ResourceMeter meter;
  std::vector<char> memory(64 << 20, 1);
  EXPECT_GT(meter.peak_memory(), 64) << memory.size();
  EXPECT_GE(meter.seconds(), 0);
}

TEST_F(ResultsTest, ClassesGatherGroups) {
  auto experiment = testing::parse_experiment(R"(
overrides: {data: {format: programs, train: [a.npz], test: [b.npz]}}
metrics: [kendall_tau]
entries: [{label: A}]
classes: {ten: ["C1?"]}
)");
  const auto trials = trials_of(experiment, folder_);
  auto results = begin_results(experiment, 1);
  write(trials[0].folder.lexically_relative(folder_).string() + "/rankings.csv", kRankings);
  results.add(trials[0], trials[0].folder, 0);
  const auto classes = classes_of(results);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].first, "ten");
  EXPECT_EQ(classes[0].second, std::vector<std::string>{"C10"});
  EXPECT_EQ(classes[1].first, "other");
  EXPECT_NEAR(class_spread(results, 0, 1, "kendall_tau", classes[1].second).mean, 1.0 / 3, 1e-12);
}

}  // namespace
}  // namespace foretime::experiments
