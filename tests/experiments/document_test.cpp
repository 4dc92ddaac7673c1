#include "experiments/document.h"

#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/load.h"
#include "experiments/trials.h"
#include "jobs/error.h"
#include "jobs/sweep/sweep.h"
#include "tests/experiments/experiment_support.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::experiments {
namespace {

using ::testing::HasSubstr;

const std::string kSmall = R"(
overrides: {data: {format: programs, train: [a.npz], valid: [v.npz], test: [b.npz]}, trainer.steps: 20}
fractions: [1, 0.1]
seeds: 2
metrics: [mae, kendall_tau]
entries:
  - {label: MLP, set: {model.type: mlp, trainer.steps: 30}}
  - {label: "GCN, wide", set: {model: {type: gcn, hidden: 64}}}
  - {label: mean, kind: mean}
variants:
  quick: {fractions: [0.5], overrides: {trainer.steps: 5}}
  quicker: {extends: quick, seeds: [7], overrides: {trainer.steps: 2}}
)";

std::string message_of(const std::string& yaml, const ExperimentChoice& choice = {}) {
  return foretime::testing::message_of<Error>([&] { trials_of(testing::parse_experiment(yaml, choice), "out"); });
}

TEST(Experiment, TrialsAreEntriesByFractionsBySeeds) {
  const auto experiment = testing::parse_experiment(kSmall);
  EXPECT_EQ(experiment.name, "e");
  const auto trials = trials_of(experiment, "out");
  ASSERT_EQ(trials.size(), 3U * 2 * 2);
  EXPECT_EQ(trials[0].folder, "out/trials/mlp/fraction-1/seed-1");  // all the data first
  EXPECT_EQ(trials[4].folder, "out/trials/gcn-wide/fraction-0.1/seed-1");
  EXPECT_EQ(trials[0].settings.model.type, configs::ModelType::mlp);
  EXPECT_EQ(trials[0].settings.trainer.steps, 30);  // the entry's own
  EXPECT_EQ(trials[1].settings.trainer.steps, 20);
  EXPECT_EQ(trials[1].settings.model.hidden, 64);
  EXPECT_EQ(trials[4].settings.data.train_fraction, 0.1);
  EXPECT_EQ(trials[11].settings.trainer.seed, 2U);
  EXPECT_EQ(trials[4].settings.run.directory, trials[4].folder.string());
  EXPECT_EQ(describe(experiment, trials[4]), "GCN, wide, 10 % of the training data, seed 1");
}

TEST(Experiment, AVariantAndTheCommandLineGoOverTheEntries) {
  const auto quick = trials_of(testing::parse_experiment(kSmall, {.variant = "quick"}), "out");
  ASSERT_EQ(quick.size(), 3U * 2);
  EXPECT_EQ(quick[0].settings.trainer.steps, 5);
  const auto quicker = trials_of(testing::parse_experiment(kSmall, {.variant = "quicker"}), "out");
  ASSERT_EQ(quicker.size(), 3U);
  EXPECT_EQ(quicker[0].settings.trainer.steps, 2);
  EXPECT_EQ(quicker[0].settings.trainer.seed, 7U);
  EXPECT_EQ(quicker[0].settings.data.train_fraction, 0.5);
  const auto chosen = trials_of(testing::parse_experiment(kSmall, {.variant = "quick",
                                                                   .entries = {"gcn-wide"},
                                                                   .fractions = {0.25},
                                                                   .seeds = 1,
                                                                   .overrides = {"trainer.steps=9"}}),
                                "out");
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0].settings.trainer.steps, 9);
  EXPECT_EQ(chosen[0].folder, "out/trials/gcn-wide/fraction-0.25/seed-1");
}

TEST(Experiment, KeysFollowWhatShapesTheResult) {
  const auto experiment = testing::parse_experiment(kSmall);
  const auto trials = trials_of(experiment, "out");
  const auto& entry = experiment.entries[0];
  auto settings = trials[0].settings;
  settings.run.directory = "elsewhere";
  settings.trainer.threads = 7;
  settings.checkpoint.every_steps = 3;
  settings.data.overlap = configs::Overlap::warn;
  settings.trainer.metric_goal = configs::Goal::maximize;  // the metric's own, said
  EXPECT_EQ(trial_key(entry, settings), trial_key(entry, trials[0].settings));
  settings.trainer.steps += 1;
  EXPECT_NE(trial_key(entry, settings), trial_key(entry, trials[0].settings));
  // What the mean is taken of depends on the candidates, not on a model.
  const auto& mean = experiment.entries[2];
  EXPECT_EQ(trial_key(mean, settings), trial_key(mean, trials[0].settings));
  settings.data.holdout = 0.3;
  EXPECT_NE(trial_key(mean, settings), trial_key(mean, trials[0].settings));
  EXPECT_NE(record_key(mean, settings, 1), record_key(mean, settings, 2));
  // What was trained does not depend on what it is measured on.
  auto measured = trials[0].settings;
  measured.data.test.push_back("more.npz");
  EXPECT_NE(trial_key(entry, measured), trial_key(entry, trials[0].settings));
  EXPECT_EQ(training_key(entry, measured), training_key(entry, trials[0].settings));
  measured.data.valid.push_back("more.npz");
  EXPECT_NE(training_key(entry, measured), training_key(entry, trials[0].settings));
}

TEST(Experiment, MessagesSayWhereAndWhat) {
  const auto with = [&](const std::string& from, const std::string& to, const ExperimentChoice& choice = {}) {
    auto text = kSmall;
    text.replace(text.find(from), from.size(), to);
    return message_of(text, choice);
  };
  EXPECT_MESSAGE(with("metrics: [mae, kendall_tau]\n", ""), "e.yaml: metrics");
  EXPECT_MESSAGE(with("kendall_tau]", "kendal_tau]"));
  EXPECT_THAT(with("model.type: mlp,", "model.typ: mlp,"), HasSubstr("e.yaml:7: override model.typ=mlp"));
  EXPECT_MESSAGE(with("model.type: mlp,", "trainer.seed: 3,"), "trainer.seed");
  EXPECT_MESSAGE(with("fractions: [1, 0.1]", "fractions: [0]"));
  EXPECT_MESSAGE(with("label: mean", "label: mlp"));
  EXPECT_MESSAGE(with("kind: mean", "kind: mean, preset: tvm"));
  EXPECT_THAT(with("kind: mean", "kind: xgboost"), HasSubstr("needs features"));
  EXPECT_THAT(with("extends: quick,", "extends: quicker,", {.variant = "quicker"}), HasSubstr("extends itself"));
  EXPECT_MESSAGE(with("train: [a.npz], ", ""), "data.train");
  EXPECT_MESSAGE(message_of(kSmall, {.variant = "fast"}));
  EXPECT_MESSAGE(message_of(kSmall, {.entries = {"TPGNN"}}));
  EXPECT_THAT(message_of(kSmall, {.overrides = {"run.directory=x"}}), HasSubstr("override run.directory=x"));
  EXPECT_THAT(message_of(kSmall, {.overrides = {"loss.type=listmle", "sampler.candidates_per_group=1"}}),
              HasSubstr("MLP: sampler."));
}

TEST(Experiment, ModelsBecomeJobsOfOneSweep) {
  const auto experiment = testing::parse_experiment(kSmall);
  const auto trials = trials_of(experiment, "out");
  const auto sweep = sweep_of(experiment, trials, {}, 3);
  ASSERT_EQ(sweep.jobs.size(), 8U);  // not the mean
  EXPECT_EQ(sweep.jobs[0].name, "e/mlp/fraction-1/seed-1");
  EXPECT_EQ(sweep.jobs[0].priority, 3);
  std::set<std::string> ids;
  for (const auto& job : sweep.jobs) {
    ids.insert(job.id);
    const auto settings = jobs::trial_settings(job, job.parameters);  // what the agent trains with
    EXPECT_EQ(settings.run.directory, configs::RunSettings().directory);
    EXPECT_EQ(fmt::format("{}", settings.data.train_fraction), job.parameters.at("data.train_fraction"));
  }
  EXPECT_EQ(ids.size(), 8U);
  // The folder for the output is no part of what jobs are.
  EXPECT_EQ(sweep_of(experiment, trials_of(experiment, "other"), {}, 0).jobs[5].id, sweep.jobs[5].id);
}

TEST(Experiment, DamagedFilesAreRefusedAndNothingElseHappens) {
  std::mt19937 random(5);
  const std::string whole = kSmall + "references: [{label: x, mae: 1}]\n";
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto text = testing::damaged(whole, random);
    try {
      trials_of(testing::parse_experiment(text, {.variant = random() % 2 == 0 ? "quicker" : ""}), "out");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 3000);
}

TEST(Experiment, ShippedFilesAreRight) {
  for (const char* name : {"resnet18-cross-workload", "tenset-cross-network"}) {
    const auto file =
        std::filesystem::path(FORETIME_SOURCE_DIR) / "configs/experiments" / (std::string(name) + ".yaml");
    for (const char* variant : {"", "quick"}) {
      const auto experiment = load_experiments(file, {.variant = variant}).parts.at(0);
      EXPECT_EQ(experiment.name, name);
      EXPECT_GE(trials_of(experiment, "out").size(), 10U);
    }
  }
  const auto protocol = std::filesystem::path(FORETIME_SOURCE_DIR) / "configs/experiments/tpugraphs.yaml";
  for (const char* variant : {"", "quick"}) {
    const auto file = load_experiments(protocol, {.variant = variant, .data_root = "/nowhere"});
    ASSERT_EQ(file.parts.size(), 7U);
    for (const auto& part : file.parts) {
      EXPECT_TRUE(missing_requirement(part).starts_with("/nowhere/npz/")) << part.part;
      EXPECT_TRUE(part.has_columns);
      if (part.folds.count == 0) {
        EXPECT_EQ(part.submission.starts_with("tile"), part.base.data.format == configs::DataFormat::tile);
        EXPECT_GE(trials_of(part, "out").size(), part.entries.size());
      }
    }
  }
  const auto whole =
      load_experiments(std::filesystem::path(FORETIME_SOURCE_DIR) / "configs/experiments/resnet18-cross-workload.yaml")
          .parts.at(0);
  EXPECT_EQ(whole.fractions, (std::vector<double>{0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(whole.base.data.max_eval_candidates, 0);
}

}  // namespace
}  // namespace foretime::experiments
