#include "jobs/sweep/sweep.h"

#include <algorithm>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/load.h"
#include "jobs/error.h"
#include "jobs/sweep/sweep_document.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string with(const std::string& more) {
  return "overrides: {data.train: [a.npz], data.valid: [v.npz], data.holdout: 0.1, trainer.eval_every: 10}\n" + more;
}

Sweep parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_sweep(yaml, "s.yaml", testing::source_dir() / "configs", overrides);
}

Sweep load_sweep(const std::filesystem::path& file, const std::vector<std::string>& overrides = {}) {
  auto plan = plan_sweep(std::get<SweepFile>(read_submission(file)), overrides);
  plan.each_job([&](JobSpec&& job) { plan.sweep.jobs.push_back(std::move(job)); });
  return std::move(plan.sweep);
}

const char* const kRandom =
    "method: random\nrun_cap: 4\nmetric: {name: valid/kendall_tau, goal: maximize}\n"
    "parameters:\n  optimizer.learning_rate: {distribution: log_uniform_values, min: 0.001, max: 0.1}\n"
    "  model.layers: {min: 1, max: 3}\n";

/// What the agent trains with: the job as its lease has it.
configs::Settings settings_of(const Sweep& sweep, size_t index) {
  auto job = sweep.jobs.at(index);
  job.settings = sweep.spec.settings;
  return trial_settings(job, job.parameters);
}

TEST(Sweep, RandomTrialsCarryResolvedSettings) {
  const Sweep sweep = parse(with(kRandom));
  ASSERT_EQ(sweep.jobs.size(), 4U);
  EXPECT_EQ(sweep.spec.trials, 4);
  EXPECT_EQ(sweep.spec.method, "random");
  EXPECT_EQ(sweep.spec.name, "s");
  EXPECT_TRUE(sweep.spec.maximize);
  std::set<std::string> ids;
  for (size_t i = 0; i < 4; ++i) {
    const JobSpec& job = sweep.jobs[i];
    EXPECT_EQ(job.id, job_id(job));
    EXPECT_EQ(job.sweep, sweep.spec.id);
    EXPECT_EQ(job.trial, static_cast<int64_t>(i));
    EXPECT_EQ(job.name, "s-" + std::to_string(i));
    EXPECT_FALSE(job.deferred);
    EXPECT_EQ(job.parameters, random_trial(sweep.space, 1, job.trial));
    const configs::Settings settings = settings_of(sweep, i);
    EXPECT_EQ(settings.optimizer.learning_rate, std::stod(job.parameters.at("optimizer.learning_rate")));
    EXPECT_EQ(settings.model.layers, std::stoll(job.parameters.at("model.layers")));
    EXPECT_EQ(settings.trainer.metric, "valid/kendall_tau");
    EXPECT_EQ(settings.checkpoint.every_steps, 10) << "retries need checkpoints";
    ids.insert(job.id);
  }
  EXPECT_EQ(ids.size(), 4U);
}

TEST(Sweep, SameFileSameIdsAndEveryChangeOfContentAnother) {
  const Sweep once = parse(with(kRandom));
  const Sweep again = parse(with(kRandom), {"name=other", "priority=5"});
  EXPECT_EQ(once.spec.id, again.spec.id) << "the name and the priority shape no result";
  EXPECT_EQ(once.jobs[2].id, again.jobs[2].id);
  EXPECT_EQ(again.jobs[2].name, "other-2");
  EXPECT_EQ(again.jobs[2].priority, 5);
  std::set<std::string> ids = {once.spec.id};
  EXPECT_TRUE(ids.insert(parse(with(kRandom), {"seed=2"}).spec.id).second);
  EXPECT_TRUE(ids.insert(parse(with(kRandom), {"trainer.steps=77"}).spec.id).second);
  EXPECT_TRUE(ids.insert(parse(with(std::string(kRandom) + "then: [export]\n")).spec.id).second);
  EXPECT_TRUE(
      ids.insert(parse(with(std::string(kRandom) + "early_terminate: {type: hyperband, min_iter: 1}\n")).spec.id)
          .second);
  EXPECT_EQ(once.spec.id, parse(with(kRandom), {"run.directory=elsewhere"}).spec.id) << "the agent chooses the folder";
}

TEST(Sweep, CutOrExtendedKeepsItsTrials) {
  const Sweep four = parse(with(kRandom)), two = parse(with(kRandom), {"run_cap=2"});
  ASSERT_EQ(two.jobs.size(), 2U);
  EXPECT_EQ(two.jobs[1].parameters, four.jobs[1].parameters);
}

/// Whoever submits a sweep again with more trials finds those that are there.
TEST(Sweep, GrowsByMoreTrialsWithoutBecomingAnother) {
  for (const std::string method : {"method: random\nrun_cap: 2\n", "method: grid\nrun_cap: 2\n"}) {
    const auto text = with(method +
                           "seeds: [3, 4]\nmetric: {name: valid/kendall_tau, goal: maximize}\n"
                           "parameters:\n  model.hidden: {values: [4, 8, 16, 32]}\n");
    const Sweep few = parse(text), more = parse(text, {"run_cap=4"});
    EXPECT_EQ(few.spec.id, more.spec.id);
    EXPECT_EQ(more.spec.trials, 8);
    ASSERT_EQ(more.jobs.size(), 8U);
    for (size_t i = 0; i < few.jobs.size(); ++i) EXPECT_EQ(few.jobs[i], more.jobs[i]) << i;
  }
}

TEST(Sweep, GridNestedParametersAndLists) {
  const Sweep sweep =
      parse(with("method: grid\nparameters:\n  model:\n    parameters:\n      hidden: {values: [32, 64]}\n"
                 "      residual: {values: [True, False]}\n"
                 "      readout: {values: [[mean, max], sum]}\n"
                 "  trainer: {parameters: {early_stop: {parameters: {patience: {value: 3}}}}}\n"));
  ASSERT_EQ(sweep.jobs.size(), 8U);
  EXPECT_EQ(sweep.jobs[0].parameters, (Parameters{{"model.hidden", "32"},
                                                  {"model.readout", "[mean, max]"},
                                                  {"model.residual", "true"},
                                                  {"trainer.early_stop.patience", "3"}}));
  const configs::Settings settings = settings_of(sweep, 0);
  EXPECT_THAT(settings.model.readout, ElementsAre(configs::ReadoutPart::mean, configs::ReadoutPart::max));
  EXPECT_EQ(settings.trainer.early_stop.patience, 3);
  EXPECT_EQ(settings_of(sweep, 7).model.residual, false);
  EXPECT_EQ(sweep.spec.metric, "valid/kendall_tau") << "without metric, the settings' own";
  const std::string text = "method: grid\nparameters: {model.hidden: {values: [1, 2, 3, 4]}}\n";
  EXPECT_EQ(parse(with(text), {"run_cap=3"}).jobs.size(), 3U);
}

TEST(Sweep, WithoutDistributionTheValuesChooseItAsInWandb) {
  const Sweep sweep =
      parse(with("method: random\nrun_cap: 1\nparameters:\n  model.hidden: {min: 1, max: 9}\n"
                 "  optimizer.beta1: {min: 0, max: 0.5}\n  model.type: {values: [gcn]}\n"
                 "  loss.type: {value: mse}\n"));
  ASSERT_EQ(sweep.space.size(), 4U);
  EXPECT_EQ(sweep.space[0].distribution, Distribution::constant);
  EXPECT_EQ(sweep.space[1].distribution, Distribution::int_uniform);
  EXPECT_EQ(sweep.space[2].distribution, Distribution::categorical);
  EXPECT_EQ(sweep.space[3].distribution, Distribution::uniform);
}

TEST(Sweep, SeedsRepeatEachTrial) {
  const Sweep sweep = parse(with(std::string(kRandom) + "seeds: [5, 9]\n"));
  ASSERT_EQ(sweep.jobs.size(), 8U);
  EXPECT_EQ(sweep.spec.trials, 8);
  EXPECT_EQ(settings_of(sweep, 2).trainer.seed, 5U);
  EXPECT_EQ(settings_of(sweep, 3).trainer.seed, 9U);
  EXPECT_EQ(sweep.jobs[3].parameters.at("trainer.seed"), "9");
  EXPECT_EQ(sweep.jobs[2].parameters.at("model.layers"), sweep.jobs[3].parameters.at("model.layers"));
  EXPECT_EQ(settings_of(parse(with(kRandom), {"seeds=3", "trainer.seed=7"}), 2).trainer.seed, 9U);
  EXPECT_EQ(parse(with(kRandom), {"seeds=[4,5]"}).jobs.size(), 8U);
}

TEST(Sweep, MetricOfTheSweepIsTheTrainersUnlessSetThere) {
  const std::string text =
      "method: grid\nmetric: {name: holdout/mae}\nparameters: "
      "{loss.type: {values: [huber]}, model.hidden: {values: [8]}}\n";
  const Sweep sweep = parse(with(text));
  EXPECT_EQ(settings_of(sweep, 0).trainer.metric, "holdout/mae");
  EXPECT_EQ(settings_of(sweep, 0).trainer.metric_goal, configs::Goal::auto_) << "its own";
  EXPECT_EQ(sweep.jobs[0].metric, "holdout/mae");
  EXPECT_FALSE(sweep.jobs[0].maximize);
  const Sweep other = parse(with(text), {"set.trainer.metric=valid/opa"});
  EXPECT_EQ(settings_of(other, 0).trainer.metric, "valid/opa");
  EXPECT_EQ(other.jobs[0].metric, "holdout/mae");
}

TEST(Sweep, BayesDefersParameters) {
  std::string text = kRandom;
  text.replace(text.find("random"), 6, "bayes");
  const Sweep sweep = parse(with(text));
  ASSERT_EQ(sweep.jobs.size(), 4U);
  for (const JobSpec& job : sweep.jobs) {
    EXPECT_TRUE(job.deferred);
    EXPECT_TRUE(job.parameters.empty());
    EXPECT_EQ(job.settings, sweep.jobs[0].settings);
  }
  EXPECT_EQ(to_json(parse_search_space(sweep.spec.definition)), to_json(sweep.space));
  EXPECT_THROW(trial_settings(sweep.jobs[0], {{"model.layers", "2"}}), configs::SettingsError) << "@sweep is no YAML";
  auto job = sweep.jobs[0];
  job.settings = sweep.spec.settings;
  const configs::Settings settings = trial_settings(job, {{"model.layers", "2"}});
  EXPECT_EQ(settings.model.layers, 2);
  EXPECT_THROW(trial_settings(job, {{"model.layers", "-2"}}), configs::SettingsError);
  EXPECT_THROW(trial_settings(job, {{"sampler.candidates_per_group", "1"}}), configs::SettingsError);
}

TEST(Sweep, ThenMakesJobsThatDependOnTheTrial) {
  const Sweep sweep = parse(with(std::string(kRandom) +
                                 "then:\n  - export\n  - evaluate: {files: ['b*.npz'], set: {data: {holdout: 0}, "
                                 "model.readout: [mean, max]}}\n"));
  ASSERT_EQ(sweep.jobs.size(), 12U);
  const JobSpec &train = sweep.jobs[3], &evaluate = sweep.jobs[4], &exported = sweep.jobs[5];
  EXPECT_EQ(train.kind, JobKind::train);
  EXPECT_EQ(evaluate.kind, JobKind::evaluate);
  EXPECT_EQ(exported.kind, JobKind::export_);
  EXPECT_THAT(train.after, ElementsAre());
  EXPECT_THAT(evaluate.after, ElementsAre(train.id));
  EXPECT_THAT(exported.after, ElementsAre(train.id, evaluate.id));
  EXPECT_EQ(evaluate.name, "s-1-evaluate");
  EXPECT_EQ(evaluate.trial, 1);
  EXPECT_EQ(evaluate.settings, "files: [\"b*.npz\"]\nset: {data.holdout: \"0\", model.readout: \"[mean, max]\"}\n");
  EXPECT_EQ(exported.settings, "");
  EXPECT_THAT(parse(with(std::string(kRandom) + "then: export\n")).jobs[1].after, ::testing::SizeIs(1));
  EXPECT_EQ(parse(with(std::string(kRandom) + "then: {evaluate: {}, export: {}}\n")).jobs[1].settings,
            "files: []\nset: {}\n");
}

TEST(Sweep, ResourcesAndAttempts) {
  const Sweep sweep =
      parse(with(std::string(kRandom) + "resources: {ranks: 2, cpus: 4, gpus: 1}\npriority: -3\nmax_attempts: 7\n"
                                        "then: [evaluate, export]\n"));
  EXPECT_EQ(sweep.jobs[1].resources.total_cpus(), 8);
  EXPECT_EQ(sweep.jobs[2].resources.total_cpus(), 1) << "an export copies files";
  EXPECT_EQ(sweep.jobs[2].resources.total_gpus(), 0);
  EXPECT_EQ(sweep.jobs[0].resources.total_cpus(), 8);
  EXPECT_EQ(sweep.jobs[0].resources.total_gpus(), 2);
  EXPECT_EQ(sweep.jobs[0].priority, -3);
  EXPECT_EQ(sweep.jobs[0].max_attempts, 7);
}

TEST(Sweep, RanksMayBeElastic) {
  const auto resources = [](const std::string& ranks) {
    return parse(with(std::string(kRandom) + "resources: {cpus: 2, ranks: " + ranks + "}\nthen: [evaluate, export]\n"));
  };
  const Sweep sweep = resources("{min: 2, max: 8}");
  EXPECT_EQ(sweep.jobs[0].resources, (Resources{.ranks = 2, .cpus = 2, .most_ranks = 8}));
  EXPECT_EQ(sweep.jobs[1].resources, sweep.jobs[0].resources) << "an evaluation";
  EXPECT_EQ(sweep.jobs[2].resources, Resources()) << "an export copies files";
  EXPECT_EQ(resources("{min: 4, max: 4}").jobs[0].resources, (Resources{.ranks = 4, .cpus = 2}));
  EXPECT_EQ(sweep.jobs[0].id, resources("1").jobs[0].id) << "what is trained is the same";
  for (const char* setting : {"model.norm=batch", "comm.gradient_dtype=bfloat16"}) {
    const auto parse_with = [&](const std::string& ranks) {
      parse(with(std::string(kRandom) + "resources: {ranks: " + ranks + "}\n"), {setting});
    };
    parse_with("2");
    EXPECT_MESSAGE(foretime::testing::message_of<SweepError>([&] { parse_with("{min: 2, max: 3}"); }));
  }
}

TEST(Sweep, EarlyTerminateGivesRungs) {
  const Sweep sweep = parse(with(std::string(kRandom) + "early_terminate: {type: hyperband, max_iter: 27, s: 2}\n"));
  EXPECT_THAT(sweep.spec.halving.rungs, ElementsAre(3, 9));
  EXPECT_EQ(sweep.spec.halving.eta, 3);
  EXPECT_THAT(parse(with(std::string(kRandom) + "early_terminate: {type: hyperband, min_iter: 50}\n")).warnings,
              ElementsAre(HasSubstr("no trial is stopped early")));
}

TEST(Sweep, WhatIsHardlyMeantIsAWarning) {
  const auto grid_of = [](const std::string& method) {
    return "program: t.py\nmethod: " + method +
           "\nrun_cap: 14\nmetric: {name: loss}\nparameters: {rate: {values: [1, 2, 3, 4]}, layers: {min: 1, max: "
           "3}}\n";
  };
  for (const auto* method : {"random", "bayes"})
    EXPECT_THAT(
        parse(grid_of(method)).warnings,
        ElementsAre(HasSubstr("run_cap: found 14, and the parameters have 12 combinations: later trials repeat")));
  EXPECT_TRUE(parse(grid_of("random"), {"run_cap=12"}).warnings.empty());
  const auto rate = [](const std::string& numbers) {
    return parse("program: t.py\nmethod: random\nrun_cap: 1\nparameters:\n  rate: {distribution: " + numbers + "}\n")
        .warnings;
  };
  EXPECT_THAT(rate("log_uniform_values, min: 0.1, max: 0.15"),
              ElementsAre(HasSubstr(
                  "s.yaml:5: rate: found min 0.1 and max 0.15, so values from 0.1 to 0.15, less than a factor")));
  EXPECT_THAT(rate("log_uniform, min: 1, max: 100"), ElementsAre(HasSubstr("log_uniform_values takes the values")));
  EXPECT_TRUE(rate("log_uniform, min: -9.2, max: -2.3").empty());
}

TEST(Sweep, KeysOfWandbWithoutMeaningAreWarnings) {
  const Sweep sweep =
      parse(with("program: train.py\ncommand: [python, '${args}']\nsettings: quickstart.yaml\nproject: p\nentity: e\n"
                 "description: d\nmethod: grid\n"
                 "metric: {name: valid/opa, target: 0.9, impute: worst}\n"
                 "parameters: {model.hidden: {values: [8]}}\n"));
  EXPECT_EQ(sweep.warnings.size(), 7U);
  EXPECT_THAT(sweep.warnings, ::testing::Contains(AllOf(HasSubstr("s.yaml:3: command"), HasSubstr("foretime train"))));
  for (const JobSpec& job : sweep.jobs) EXPECT_THAT(job.settings, ::testing::Not(HasSubstr("python")));
}

TEST(Sweep, EveryShippedFileParses) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(testing::source_dir() / "configs" / "sweeps")) {
    const Sweep sweep = load_sweep(file.path());
    EXPECT_FALSE(sweep.jobs.empty()) << file.path();
    ++files;
  }
  EXPECT_GE(files, 3);
  const Sweep example = load_sweep(testing::source_dir() / "configs" / "sweeps" / "wandb_example.yaml");
  EXPECT_EQ(example.jobs.size(), 12U);
  const Sweep quick = load_sweep(testing::source_dir() / "configs" / "sweeps" / "quickstart.yaml");
  EXPECT_EQ(quick.jobs.size(), 8U);
  EXPECT_TRUE(quick.warnings.empty());
  EXPECT_EQ(settings_of(quick, 0).data.root, "samples/resnet18_conv2d") << "stays relative";
}

TEST(Sweep, SettingsFileIsRelativeToTheSweep) {
  testing::Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "sub");
  std::ofstream(scratch.path() / "base.yaml") << "data: {train: [x.npz], valid: [v.npz]}\nmodel: {hidden: 48}\n";
  std::ofstream(scratch.path() / "sub" / "sweep.yaml")
      << "settings: ../base.yaml\nmethod: grid\nparameters: {model.layers: {values: [1, 2]}}\n";
  const Sweep sweep = load_sweep(scratch.path() / "sub" / "sweep.yaml", {"max_attempts=5"});
  EXPECT_EQ(settings_of(sweep, 0).model.hidden, 48);
  EXPECT_EQ(sweep.spec.name, "sweep");
  EXPECT_EQ(sweep.jobs[0].max_attempts, 5);
  EXPECT_THROW(load_sweep(scratch.path() / "none.yaml"), SweepError);
  // From the command line it is relative to where the user is.
  const std::string base = (scratch.path() / "base.yaml").string();
  const std::string text = "method: grid\nparameters: {model.layers: {values: [1, 2]}}\n";
  EXPECT_EQ(settings_of(parse(text, {"settings=" + base}), 0).model.hidden, 48);
}

TEST(Sweep, SingleJobFromASettingsFile) {
  const auto file = testing::source_dir() / "configs" / "quickstart.yaml";
  const auto text = std::get<TrainingFile>(read_submission(file));
  const JobSpec job = training_job(text, {"trainer.steps=12"}, "");
  EXPECT_EQ(job.name, "quickstart");
  EXPECT_EQ(job.id, job_id(job));
  EXPECT_EQ(job.trial, -1);
  EXPECT_EQ(job.metric, "holdout/mae");
  EXPECT_FALSE(job.maximize);
  EXPECT_EQ(configs::parse_settings(job.settings, job.name).trainer.steps, 12);
  EXPECT_EQ(configs::parse_settings(job.settings, job.name).run.directory, configs::RunSettings().directory);
  EXPECT_EQ(training_job(text, {"trainer.steps=12", "run.directory=x"}, "named").id, job.id);
  EXPECT_THROW(training_job(text, {"trainer.stepz=12"}, ""), configs::SettingsError);
}

using Rungs = std::vector<int64_t>;

Rungs first(const HalvingRule& rule, size_t count) {
  return {rule.rungs.begin(), rule.rungs.begin() + static_cast<ptrdiff_t>(std::min(count, rule.rungs.size()))};
}

TEST(Halving, FromMinIsAGeometricSeries) {
  const HalvingRule rule = halving_from_min(3, 3);
  EXPECT_EQ(first(rule, 4), (Rungs{3, 9, 27, 81}));
  EXPECT_EQ(rule.eta, 3);
  EXPECT_TRUE(rule.enabled());
  EXPECT_LE(rule.rungs.back(), 1000000000);
  EXPECT_EQ(first(halving_from_min(1, 2), 4), (Rungs{1, 2, 4, 8}));
}

TEST(Halving, RungsThatFallTogetherCountOnce) {
  // 1, 1.5, 2.25, 3.375, 5.06, 7.59: whole parts, each once.
  EXPECT_EQ(first(halving_from_min(1, 1.5), 5), (Rungs{1, 2, 3, 5, 7}));
  const HalvingRule slow = halving_from_min(1, 1.01);
  for (size_t i = 1; i < slow.rungs.size(); ++i) EXPECT_LT(slow.rungs[i - 1], slow.rungs[i]);
  EXPECT_LE(slow.rungs.size(), 64U);
}

TEST(Halving, FromMaxCountsDown) {
  // The example of W&B's documentation: s 2, eta 3, max_iter 27 gives rungs 27 / 3 and 27 / 9.
  EXPECT_EQ(halving_from_max(27, 2, 3).rungs, (Rungs{3, 9}));
  EXPECT_EQ(halving_from_max(5, 2, 2).rungs, (Rungs{1, 2}));
  EXPECT_EQ(halving_from_max(16, 3, 2).rungs, (Rungs{2, 4, 8}));
  // More rungs than there is room for: those below one evaluation are left out, as in W&B.
  EXPECT_EQ(halving_from_max(9, 10, 3).rungs, (Rungs{1, 3}));
}

TEST(Halving, RefusesWhatMakesNoRungs) {
  EXPECT_THROW(halving_from_min(0, 3), SweepError);
  EXPECT_THROW(halving_from_min(1, 1), SweepError);
  EXPECT_THROW(halving_from_min(1, 0.5), SweepError);
  EXPECT_THROW(halving_from_max(2, 1, 3), SweepError);
  EXPECT_THROW(halving_from_max(0, 1, 3), SweepError);
  EXPECT_THROW(halving_from_max(27, 0, 3), SweepError);
}

}  // namespace

}  // namespace foretime::jobs
