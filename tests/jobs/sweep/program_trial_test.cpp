#include "jobs/sweep/program_trial.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/sweep/sweep.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

namespace foretime::jobs {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sweep program_sweep(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_sweep(yaml, "s.yaml", foretime::testing::source_dir() / "configs", overrides);
}
std::string fault_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return foretime::testing::message_of<std::exception>([&] { program_sweep(yaml, overrides); });
}
/// The command line of a trial; the variable HOST is "here".
std::vector<std::string> words_of(const Sweep& sweep, size_t trial = 0) {
  return arguments_of(parse_program(sweep.spec.settings), sweep.jobs.at(trial).parameters, "/p/train.py",
                      "/r/args.json", [](const char* name) { return std::string(name) == "HOST" ? "here" : nullptr; });
}

// Forms of files that W&B's users have.
const char* const kRandomHyperband =
    "program: train.py\nmethod: random\nmetric: {goal: minimize, name: val_loss}\n"
    "parameters:\n  dropout: {values: [0.15, 0.2]}\n  decay: {values: [1e-5, 1e-6]}\n  epochs: {value: 27}\n"
    "early_terminate: {type: hyperband, s: 2, eta: 3, max_iter: 27}\n";
const char* const kBayes =
    "program: train.py\nmethod: bayes\nmetric:\n    name: Validation/Accuracy\n    goal: maximize\n"
    "parameters:\n    batch_size:\n        values: [8, 16, 32]\n    ratio:\n        min: 0.1\n        max: 0.9\n";
const char* const kHydra =
    "program: main.py\nmethod: bayes\nmetric: {name: val_loss, goal: minimize}\n"
    "parameters:\n  optimizer.config.learning_rate: {min: !!float 1e-5, max: 0.1}\n"
    "  experiment: {values: [expt001, expt002]}\n  optimizer: {values: [sgd, adam]}\n"
    "command:\n- ${env}\n- ${interpreter}\n- ${program}\n- ${args_no_hyphens}\n";
const char* const kLaunch =
    "description: a sweep\nmethod: grid\nrun_cap: 10\njob: team/project/job:latest\n"
    "metric: {name: epoch/val_loss, goal: minimize}\n"
    "parameters:\n  rate: {values: [0, 0.1]}\n  epochs: {max: 20, min: 10, distribution: int_uniform}\n"
    "scheduler:\n  num_workers: 8\n";
const char* const kConstants =
    "method: random\nmetric: {goal: maximize, name: val_accuracy}\n"
    "parameters:\n  batch_size: {distribution: int_uniform, max: 128, min: 32}\n"
    "  epochs: {distribution: constant, value: 200}\n  optimizer: {distribution: categorical, values: [Adam, Adamax]}\n"
    "program: train.py\n";

TEST(ProgramTrial, FilesOfWandbRunTheirProgram) {
  for (const char* file : {kRandomHyperband, kBayes, kHydra, kConstants}) {
    const Sweep sweep = program_sweep(file, {"run_cap=3"});
    EXPECT_EQ(sweep.jobs.size(), 3U) << file;
    EXPECT_TRUE(runs_program(sweep.spec.settings)) << file;
    EXPECT_TRUE(sweep.warnings.empty()) << sweep.warnings.front();
  }
  const Sweep random = program_sweep(kRandomHyperband, {"run_cap=3"});
  EXPECT_THAT(words_of(random), ElementsAre("/usr/bin/env", "python3", "/p/train.py", HasSubstr("--decay=1e-"),
                                            HasSubstr("--dropout=0."), "--epochs=27"));
  EXPECT_THAT(random.spec.halving.rungs, ElementsAre(3, 9));
  EXPECT_FALSE(random.spec.maximize);
  EXPECT_TRUE(program_sweep(kBayes, {"run_cap=3"}).spec.maximize);
  auto hydra = program_sweep(kHydra, {"run_cap=3"});
  hydra.jobs[0].parameters = {
      {"experiment", "expt001"}, {"optimizer", "sgd"}, {"optimizer.config.learning_rate", "0.01"}};
  EXPECT_THAT(words_of(hydra), ElementsAre("/usr/bin/env", "python3", "/p/train.py", "experiment=expt001",
                                           "optimizer=sgd", "optimizer.config.learning_rate=0.01"));
}

TEST(ProgramTrial, FilesOfWandbTrainWithSettingsAndRename) {
  const std::string settings = "settings: quickstart.yaml\n";
  const Sweep random =
      program_sweep(kRandomHyperband + settings +
                        "rename: {val_loss: holdout/mae, dropout: model.dropout, decay: optimizer.weight_decay, "
                        "epochs: trainer.epochs}\n",
                    {"run_cap=3", "trainer.steps=50"});
  EXPECT_FALSE(runs_program(random.spec.settings));
  EXPECT_EQ(random.jobs.at(0).parameters.at("trainer.epochs"), "27");
  EXPECT_EQ(random.spec.metric, "holdout/mae");
  const Sweep launch = program_sweep(
      kLaunch + settings + "rename: {epoch/val_loss: holdout/mae, rate: optimizer.learning_rate, epochs: ~}\n");
  EXPECT_EQ(launch.jobs.size(), 2U);
  EXPECT_THAT(launch.warnings, Contains(HasSubstr("scheduler.num_workers")));
  EXPECT_THAT(fault_of(kRandomHyperband + settings, {"run_cap=3"}), HasSubstr("rename: {val_loss: …}"));
  EXPECT_MESSAGE(fault_of(kRandomHyperband + settings + "rename: {val_loss: holdout/mae}\n", {"run_cap=3"}),
                 "rename: {dropout");
  EXPECT_THAT(fault_of(kRandomHyperband + settings + "rename: {vall_loss: holdout/mae}\n", {"run_cap=3"}),
              HasSubstr("metric.name: found val_loss, expected SET/METRIC"));
  EXPECT_MESSAGE(fault_of(std::string(kConstants) + "rename: {epoch: x}\n", {"run_cap=3"}), "rename.epoch");
}

TEST(ProgramTrial, CommandsAreFilledIn) {
  const std::string head =
      "program: train.py\nmethod: grid\nparameters:\n"
      "  flag: {value: true}\n  off: {value: no}\n  list: {value: [1, 'a', 2.5]}\n  none: {value: null}\n"
      "  text: {value: '7'}\n  word: {value: it's}\n"
      "  optimizer: {parameters: {lr: {value: 0.10}, kind: {value: adam}}}\n  a.b: {value: 3}\n";
  const Sweep plain = program_sweep(head);
  EXPECT_THAT(words_of(plain), ElementsAre("/usr/bin/env", "python3", "/p/train.py", "--a.b=3", "--flag=True",
                                           "--list=[1, 'a', 2.5]", "--none=None", "--off=False",
                                           "--optimizer.kind=adam", "--optimizer.lr=0.10", "--text=7", "--word=it's"));
  const Sweep other = program_sweep(head +
                                    "command: [torchrun, '--nproc=2', '${program}', '${args_no_boolean_flags}', "
                                    "'${args_json}', '${args_json_file}', '${envvar:HOST}', '$x']\n");
  const auto words = words_of(other);
  EXPECT_THAT(words, ElementsAre("torchrun", "--nproc=2", "/p/train.py", "--a.b=3", "--flag", "--list=[1, 'a', 2.5]",
                                 "--none=None", "--optimizer.kind=adam", "--optimizer.lr=0.10", "--text=7",
                                 "--word=it's", HasSubstr("{"), "/r/args.json", "here", "$x"));
  EXPECT_EQ(nlohmann::json::parse(words.at(11)),
            nlohmann::json::parse(R"({"a.b": 3, "flag": true, "list": [1, "a", 2.5], "none": null, "off": false,
                                      "optimizer": {"kind": "adam", "lr": 0.1}, "text": "7", "word": "it's"})"));
  for (const auto* word : {"${envvar:NOWHERE}", "--data=${envvar:NOWHERE}/x"}) {
    const Sweep variable = program_sweep(head + fmt::format("command: ['{}']\n", word));
    EXPECT_THAT(foretime::testing::message_of<JobsError>([&] { words_of(variable); }), HasSubstr("NOWHERE"));
  }
  const Sweep within = program_sweep(head + "command: ['--data=${envvar:HOST}/${envvar:HOST}', '${', '$HOST}']\n");
  EXPECT_THAT(words_of(within), ElementsAre("--data=here/here", "${", "$HOST}"));
  const Sweep spaced = program_sweep(
      "program: t.py\nmethod: grid\nparameters: {lr: {value: 0.1}, on: {value: true}}\n"
      "command: ['${program}', '${args_no_equals}']\n");
  EXPECT_THAT(words_of(spaced), ElementsAre("/p/train.py", "--lr", "0.1", "--on", "True"));
  EXPECT_EQ(words_of(program_sweep(head + "command: []\n")), words_of(plain)) << "W&B's default";
}

TEST(ProgramTrial, KeepsThePatternOfPrintedMetrics) {
  const std::string file = "program: t.py\nmethod: grid\nmetric: {name: loss}\nparameters: {lr: {value: 0.1}}\n";
  const Sweep plain = program_sweep(file), printed = program_sweep(file + "metric_from: {stdout: 'loss (\\d+)'}\n");
  EXPECT_EQ(parse_program(plain.spec.settings).stdout_pattern, "");
  EXPECT_EQ(parse_program(printed.spec.settings).stdout_pattern, "loss (\\d+)");
  EXPECT_TRUE(runs_program(printed.spec.settings));
  EXPECT_NE(plain.spec.id, printed.spec.id);
}

TEST(ProgramTrial, AProgramAndAMetricMayComeFromTheCommandLine) {
  const std::string file = "method: bayes\nparameters: {rate: {min: 0.0, max: 1.0}}\n";
  const Sweep sweep = program_sweep(file + "metric: {name: accuracy}\n",
                                    {"run_cap=2", "program=train.py", "metric.name=loss", "metric.goal=minimize"});
  EXPECT_EQ(parse_program(sweep.spec.settings).program, "train.py");
  EXPECT_EQ(sweep.spec.metric, "loss");
  EXPECT_FALSE(sweep.spec.maximize);
  EXPECT_EQ(sweep.jobs.at(0).program, program_key(parse_program(sweep.spec.settings)));
  EXPECT_EQ(program_sweep(file, {"run_cap=2", "program=t.py", "metric.name=m", "metric.goal=maximize"}).spec.metric,
            "m");
  // Without either, what is missing is said before what is unknown.
  for (const auto& more : {"metric: {name: final_accuracy}\n", "metric: {name: valid/kendall_tau}\n"})
    EXPECT_MESSAGE(fault_of(file + more, {"run_cap=2"}), "s.yaml");
}

TEST(ProgramTrial, MergeKeysAndExtensionsAreThoseOfYaml) {
  const Sweep sweep = program_sweep(
      "x-values: &both {values: [1, 2]}\n.more: 3\nprogram: t.py\nmethod: grid\n"
      "parameters:\n  a: {<<: *both}\n  b: &third {<<: [*both, {values: [7], distribution: categorical}]}\n"
      "  c: {values: [5], <<: *third}\n");
  EXPECT_EQ(sweep.jobs.size(), 4U);
  EXPECT_EQ(sweep.jobs.back().parameters, (Parameters{{"a", "2"}, {"b", "2"}, {"c", "5"}}));
  EXPECT_MESSAGE(fault_of("program: t.py\nmethod: grid\nparameters: {a: {<<: 3}}\n"));
}

TEST(ProgramTrial, OverridesAreParametersWithOneValue) {
  const std::string head = "program: train.py\nmethod: grid\nparameters: {lr: {values: [0.1, 0.2]}}\n";
  const Sweep sweep = program_sweep(head + "overrides: {model: {depth: 3}, note: '5'}\n", {"epochs=4", "verbose=yes"});
  EXPECT_EQ(sweep.jobs.size(), 2U);
  EXPECT_EQ(sweep.jobs[1].parameters,
            (Parameters{{"epochs", "4"}, {"lr", "0.2"}, {"model.depth", "3"}, {"note", "\"5\""}, {"verbose", "true"}}));
  EXPECT_MESSAGE(fault_of(head, {"lr=3"}), "lr");
  // Another program, command or constant makes another sweep.
  EXPECT_NE(program_sweep(head).spec.id, program_sweep(head, {"epochs=4"}).spec.id);
  EXPECT_NE(program_sweep(head).spec.id, program_sweep(head + "command: ['${program}']\n").spec.id);
}

TEST(ProgramTrial, WhatCannotBeIsRefused) {
  const std::string head = "method: grid\nparameters: {lr: {values: [0.1, 0.2]}}\n";
  const std::vector<std::string> wrong = {"program: t.py\ncommand: ['${arg}']\n",
                                          "program: t.py\ncommand: ['-b ${lr}']\n",
                                          "program: t.py\ncommand: ['--config=${args_json_file}']\n",
                                          "command: ['${program}']\n",
                                          "program: t.py\ncommand: python t.py\n",
                                          "program: t.py\nseeds: 3\n",
                                          "program: t.py\nthen: export\n",
                                          "program: t.py\nmetric_from: {stdout: 'loss (.*)'}\n",
                                          "program: t.py\nmetric: {name: loss}\nmetric_from: {stdout: loss}\n",
                                          "program: t.py\nmetric: {name: loss}\nmetric_from: {stderr: '(.*)'}\n",
                                          "metric_from: {stdout: '(.*)'}\nsettings: sweeps/quickstart.yaml\n",
                                          "program: t.py\nearly_terminate: {type: hyperband, min_iter: 1}\n"};
  for (const auto& more : wrong) EXPECT_MESSAGE(fault_of(head + more)) << more;
  EXPECT_MESSAGE(foretime::testing::message_of<JobsError>([] { parse_program("{\"command\":3}"); }));
}

}  // namespace
}  // namespace foretime::jobs
