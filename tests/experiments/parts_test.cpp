#include <algorithm>
#include <fstream>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "configs/load.h"
#include "experiments/document.h"
#include "experiments/trials.h"
#include "jobs/error.h"
#include "tests/experiments/experiment_support.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::experiments {
namespace {

using ::testing::HasSubstr;

const std::string kParts = R"(
title: All of it
seeds: 2
overrides: {trainer: {steps: 20, threads: 3}}
metrics: [kendall_tau]
entries:
  - {label: small, settings: small.yaml}
  - {label: wide, settings: small.yaml, set: {model.hidden: 64, trainer.steps: 40}}
  - {label: random, kind: random}
parts:
  here:
    overrides: {data: {train: [a.npz], valid: [v.npz], test: [b.npz]}, trainer.steps: 30}
    requires: [present]
  there:
    title: Elsewhere
    requires: [present, absent]
    seeds: [9]
    set: [valid, holdout]
    overrides: {data: {train: [c.npz], valid: [d.npz], holdout: 0.2}}
    entries: [{label: alone, set: {model.type: gcn}}]
    columns:
      - {metric: kendall_tau, set: holdout, groups: [c*], title: held out}
      - {metric: seconds}
    references: [{label: before, held out: 0.5}]
variants:
  quick:
    seeds: 1
    overrides: {trainer.steps: 5}
    parts: {there: {seeds: [4], overrides: {trainer.steps: 2}}}
  quicker: {extends: quick, overrides: {trainer.steps: 1}}
)";

class PartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "present");
    std::ofstream(folder_ / "small.yaml")
        << "model: {type: sage, hidden: 8}\ntrainer: {steps: 10, threads: 1}\ndata: {root: elsewhere}\n";
  }

  ExperimentFile parse(ExperimentChoice choice = {}, const std::string& yaml = kParts) const {
    if (choice.data_root.empty()) choice.data_root = folder_.string();
    return parse_experiments(yaml, "e.yaml", folder_, choice);
  }

  std::string message_of(const std::string& from, const std::string& to, const ExperimentChoice& choice = {}) const {
    auto text = kParts;
    text.replace(text.find(from), from.size(), to);
    return foretime::testing::message_of<std::runtime_error>([&] {
      for (const auto& part : parse(choice, text).parts) trials_of(part, "out");
    });
  }

  foretime::testing::Scratch scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(PartsTest, EachPartIsAnExperimentWithWhatTheFileAndItselfSay) {
  const auto file = parse();
  EXPECT_EQ(file.title, "All of it");
  EXPECT_TRUE(file.has_parts);
  ASSERT_EQ(file.parts.size(), 2U);
  const auto &here = file.parts[0], &there = file.parts[1];
  EXPECT_EQ(here.full_name(), "e/here");
  EXPECT_EQ(here.title, "here");
  EXPECT_EQ(here.sets, std::vector<std::string>{"test"});
  EXPECT_FALSE(here.has_columns);
  ASSERT_EQ(here.columns.size(), 1U);
  EXPECT_FALSE(here.columns[0].is_filtered());
  EXPECT_EQ(here.entries.size(), 3U);
  EXPECT_EQ(there.title, "Elsewhere");
  EXPECT_EQ(there.seeds, std::vector<uint64_t>{9});
  EXPECT_EQ(there.metrics, std::vector<std::string>{"kendall_tau"});
  ASSERT_EQ(there.columns.size(), 2U);
  EXPECT_EQ(there.columns[0].set, "holdout");
  EXPECT_EQ(there.references[0].values.at("held out"), 0.5);
  // One part's keys are no other's.
  EXPECT_EQ(here.seeds.size(), 2U);
  EXPECT_TRUE(here.references.empty());
}

TEST_F(PartsTest, SettingsComeFromTheEntrysFileThenTheOverridesThenItsOwn) {
  const auto here = trials_of(parse().parts[0], "out");
  ASSERT_EQ(here.size(), 3U * 2);
  EXPECT_EQ(here[0].settings.model.type, configs::ModelType::sage);  // its file
  EXPECT_EQ(here[0].settings.model.hidden, 8);                       // its file
  EXPECT_EQ(here[0].settings.trainer.steps, 30);   // the part's overrides, over the file's and the settings'
  EXPECT_EQ(here[0].settings.trainer.threads, 3);  // the file's overrides
  EXPECT_EQ(here[0].settings.data.root, folder_);  // the command line
  EXPECT_EQ(here[1].settings.model.hidden, 64);    // set
  EXPECT_EQ(here[1].settings.trainer.steps, 40);   // set
  EXPECT_EQ(here[0].folder, "out/trials/small/fraction-1/seed-1");
  const auto quick = parse({.variant = "quick"});
  EXPECT_EQ(trials_of(quick.parts[0], "out")[1].settings.trainer.steps, 5);  // the variant's, over set
  const auto there = trials_of(quick.parts[1], "out");
  EXPECT_EQ(there[0].settings.trainer.steps, 2);  // what it says of the part
  EXPECT_EQ(there[0].seed, 4U);
  EXPECT_EQ(trials_of(parse({.variant = "quicker"}).parts[1], "out")[0].settings.trainer.steps, 1);
  EXPECT_EQ(trials_of(parse({.variant = "quick", .overrides = {"trainer.steps=7"}}).parts[1], "out")[0]
                .settings.trainer.steps,
            7);
}

TEST_F(PartsTest, PartsAndEntriesAreChosenAndRequirementsLookedFor) {
  const auto file = parse();
  EXPECT_EQ(missing_requirement(file.parts[0]), "");
  EXPECT_EQ(missing_requirement(file.parts[1]), (folder_ / "absent").string());
  const auto there = parse({.parts = {"there"}});
  ASSERT_EQ(there.parts.size(), 1U);
  EXPECT_EQ(there.parts[0].part, "there");
  const auto some = parse({.entries = {"random", "wide"}});
  ASSERT_EQ(some.parts.size(), 1U) << "the other part has none of them";
  EXPECT_EQ(some.parts[0].entries[0].label, "random");
  EXPECT_EQ(parse({.entries = {"random", "alone"}}).parts.size(), 2U);
}

TEST_F(PartsTest, JobsOfPartsAreSweepsOfTheirOwn) {
  const auto file = parse();
  const auto here = sweep_of(file.parts[0], trials_of(file.parts[0], "out"), {}, 0);
  const auto there = sweep_of(file.parts[1], trials_of(file.parts[1], "out"), {}, 0);
  EXPECT_NE(here.spec.id, there.spec.id);
  EXPECT_EQ(here.spec.name, "e/here");
  EXPECT_EQ(here.jobs[0].name, "e/here/small/fraction-1/seed-1");
  EXPECT_EQ(here.jobs.size(), 4U);
  EXPECT_EQ(here.jobs[0].parameters.at("model.type"), "sage");
  EXPECT_NE(here.jobs[0].id, here.jobs[1].id);
}

TEST_F(PartsTest, MessagesSayWhatIsWrong) {
  EXPECT_THAT(message_of("small.yaml}", "absent.yaml}"), HasSubstr("absent.yaml"));
  EXPECT_MESSAGE(message_of("  here:", "  he/re:"));
  EXPECT_MESSAGE(message_of("there: {seeds", "where: {seeds", {.variant = "quick"}));
  EXPECT_MESSAGE(message_of("seeds: 2", "seeds: 2", {.parts = {"nowhere"}}));
  EXPECT_MESSAGE(message_of("seeds: 2", "seeds: 2", {.entries = {"GAT"}}));
  EXPECT_MESSAGE(message_of("set: [valid, holdout]", "set: [valid, valid]"));
  EXPECT_THAT(message_of("{metric: kendall_tau, set: holdout", "{metric: kendall_tau, set: test"), HasSubstr("holdout"))
      << "a set that is not measured";
  EXPECT_MESSAGE(message_of("- {metric: seconds}", "- {set: valid}"));
  EXPECT_THAT(message_of("held out: 0.5", "held in: 0.5"), HasSubstr("held out")) << "the nearest known";
  EXPECT_MESSAGE(message_of("title: Elsewhere", "submission: layout:tpu"));
  EXPECT_MESSAGE(message_of("{label: random, kind: random}", "{label: r, kind: random, settings: small.yaml}"));
  EXPECT_MESSAGE(message_of("set: {model.hidden: 64,", "set: {data.format: tile,"), "wide: data.format");
  EXPECT_MESSAGE(message_of("set: {model.hidden: 64,", "set: {data.max_eval_candidates: 7,"));
  EXPECT_THAT(message_of("requires: [present]", "folds: {count: 2}"), HasSubstr("groups: [patterns"));
  EXPECT_THAT(message_of("requires: [present]", "variants: {}"), HasSubstr("variants"));
}

TEST_F(PartsTest, DamagedFilesAreRefusedAndNothingElseHappens) {
  std::mt19937 random(7);
  const std::string whole = kParts + "  folded: {parts: {here: {folds: {count: 2, groups: [present]}}}}\n";
  const char* variants[] = {"", "quicker", "folded"};
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto text = testing::damaged(whole, random);
    try {
      for (const auto& part : parse({.variant = variants[random() % 3]}, text).parts) trials_of(part, "out");
    } catch (const ExperimentError&) {
      ++refused;
    } catch (const configs::SettingsError&) {
      ++refused;
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 2000);
}

class FoldsTest : public PartsTest {
 protected:
  void SetUp() override {
    PartsTest::SetUp();
    std::filesystem::create_directories(folder_ / "groups");
    for (const char* name : {"a", "b", "c", "d", "e"})
      foretime::testing::write_synthetic(
          folder_ / "groups" / ("synthetic_" + std::string(name) + ".npz"),
          {.nodes = 12, .configurable = 3, .candidates = 8, .seed = static_cast<uint64_t>(*name)});
  }

  Experiment experiment(const std::string& folds, const std::string& overrides = "") const {
    return parse({},
                 "metrics: [kendall_tau]\nentries: [{label: A, settings: small.yaml}, {label: r, kind: random}]\n"
                 "overrides: {data: {format: layout, valid: [x.npz], holdout: 0.5}, " +
                     overrides + "trainer.metric: valid/opa}\nfolds: " + folds + "\n")
        .parts.front();
  }

  std::string message_of_folds(const Experiment& experiment) const {
    return foretime::testing::message_of<std::runtime_error>([&] { trials_of(experiment, "out"); });
  }
};

TEST_F(FoldsTest, EveryGroupIsTestedOnceByTrialsThatDoNotTrainOnIt) {
  const auto trials = trials_of(experiment("{count: 2, groups: [groups]}"), "out");
  ASSERT_EQ(trials.size(), 2U * 2);
  EXPECT_EQ(trials[1].folder, "out/trials/a/fraction-1/seed-1/fold-1");
  std::multiset<std::string> tested;
  for (size_t t = 0; t < 2; ++t) {
    const auto& data = trials[t].settings.data;
    EXPECT_EQ(trials[t].fold, static_cast<int64_t>(t));
    EXPECT_EQ(data.train.size() + data.test.size(), 5U);
    EXPECT_TRUE(data.valid.empty());
    EXPECT_EQ(data.holdout, 0);
    EXPECT_EQ(trials[t].settings.trainer.metric, "test/opa");
    tested.insert(data.test.begin(), data.test.end());
    for (const auto& file : data.test) EXPECT_EQ(std::count(data.train.begin(), data.train.end(), file), 0);
  }
  EXPECT_EQ(tested,
            (std::multiset<std::string>{"groups/synthetic_a.npz", "groups/synthetic_b.npz", "groups/synthetic_c.npz",
                                        "groups/synthetic_d.npz", "groups/synthetic_e.npz"}));
  EXPECT_EQ(trials[0].settings.data.test,
            (std::vector<std::string>{"groups/synthetic_a.npz", "groups/synthetic_c.npz", "groups/synthetic_e.npz"}));
}

TEST_F(FoldsTest, WhatCannotBeFoldedIsRefused) {
  EXPECT_THAT(message_of_folds(experiment("{count: 6, groups: [groups]}")), HasSubstr("found 5 groups"));
  EXPECT_MESSAGE(message_of_folds(
      experiment("{count: 2, groups: [groups]}", "trainer: {eval_every: 1, early_stop.patience: 2}, ")));
  foretime::testing::write_synthetic(folder_ / "groups/synthetic_p.foretime",
                                     {.nodes = 12, .configurable = 3, .candidates = 8});
  EXPECT_MESSAGE(message_of_folds(experiment("{count: 2, groups: [groups]}")));
  EXPECT_THROW(experiment("{count: 2, groups: [groups]}\nset: valid"), configs::SettingsError);
  EXPECT_THROW(experiment("{count: 2, groups: [groups]}\nsubmission: tile:xla"), configs::SettingsError);
}

}  // namespace
}  // namespace foretime::experiments
