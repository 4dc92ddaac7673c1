#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "configs/load.h"
#include "configs/yaml_reader.h"
#include "jobs/error.h"
#include "jobs/sweep/sweep.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return testing::message_of<Error>([&] { parse_sweep(yaml, "s.yaml", ".", overrides); });
}

/// A Case is a wrong sweep file and the places that its message names.
struct Case {
  std::string yaml;
  std::vector<std::string> places;
};

const std::string kHead =
    "method: random\nrun_cap: 2\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\n";  // three lines
const std::string kParameters = "parameters: {model.hidden: {values: [8]}}\n";

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = error_of(c.yaml);
    EXPECT_MESSAGE(message) << c.yaml;
    for (const std::string& place : c.places) EXPECT_THAT(message, HasSubstr(place)) << c.yaml;
  }
}

TEST(SweepErrors, TopLevel) {
  expect_errors({
      {"", {"s.yaml"}},
      {"- a\n", {"s.yaml"}},
      {"method: [random\n", {"s.yaml:"}},
      {kHead, {"s.yaml: parameters"}},
      {kParameters, {"s.yaml: method"}},
      {kHead + kParameters + "metod: grid\n", {"s.yaml:5: metod"}},
      {kHead + kParameters + "xyzzy: 1\n", {"s.yaml:5: xyzzy"}},
      {kHead + kParameters + "method: grid\n", {"s.yaml:5: method"}},
      {"method: baye\n" + kParameters, {"s.yaml:1: method: found 'baye'"}},
      {"method: custom\n" + kParameters, {}},
      {kHead + kParameters + "scheduler: {engine: optuna}\n", {"s.yaml:5: ", "scheduler.engine"}},
      {kHead + kParameters + "seed: -1\n", {"s.yaml:5: seed: found '-1'"}},
      {kHead + kParameters + "priority: 4001\n", {"priority"}},
      {kHead + kParameters + "max_attempts: 0\n", {"max_attempts: found 0"}},
      {kHead + kParameters + "resources: {cpu: 1}\n", {"resources.cpu"}},
      {kHead + kParameters + "resources: {ranks: 0}\n", {"resources.ranks"}},
      {kHead + kParameters + "resources: {ranks: {min: 2}}\n", {"s.yaml:5: resources.ranks"}},
      {kHead + kParameters + "resources: {ranks: {max: 2}}\n", {"resources.ranks"}},
      {kHead + kParameters + "resources: {ranks: {min: 3, max: 2}}\n", {"resources.ranks"}},
      {kHead + kParameters + "resources: {ranks: {min: 0, max: 2}}\n", {"resources.ranks.min"}},
      {kHead + kParameters + "resources: {ranks: {min: 1, mex: 2}}\n", {"resources.ranks.mex"}},
      {kHead + kParameters + "resources: {ranks: [2, 8]}\n", {"resources.ranks: found"}},
      {kHead + kParameters + "resources: {ranks: 2, gpus: 4}\n", {"resources.gpus"}},
      {kHead + kParameters + "name: ''\n", {"name"}},
      {kHead + kParameters + "name: \"a\\nb\"\n", {"name"}},
      {kHead + kParameters + fmt::format("name: {:x<300}\n", ""), {"name"}},
      {kHead + kParameters + "settings: none.yaml\n", {"s.yaml:5: settings"}},
      {"method: random\nrun_cap: 1\n" + kParameters, {"data.train", "settings: my.yaml"}},
      {"method: random\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\n" + kParameters,
       {"run_cap: is missing", "run_cap=20"}},
      {"method: random\nrun_cap: 0\n" + kParameters, {"s.yaml:2: run_cap"}},
      {"method: random\nrun_cap: 1.5\n" + kParameters, {"s.yaml:2: run_cap"}},
      {"method: bayes\nrun_cap: 1\n" + kParameters, {"s.yaml:1: method"}},
  });
}

TEST(SweepErrors, ParametersAreNamedWithPlace) {
  const auto with = [](const std::string& parameter) { return kHead + "parameters:\n  " + parameter + "\n"; };
  expect_errors({
      {kHead + "parameters: {}\n", {"s.yaml:4: parameters"}},
      {kHead + "parameters: [a]\n", {"s.yaml:4: parameters"}},
      {with("model.hiden: {value: 1}"), {"s.yaml:5: model.hiden"}},
      {with("learning_rate: {value: 1}"), {"learning_rate"}},
      {with("model: {values: [1]}"), {"s.yaml:5: model"}},
      {with("model.hidden: 8"), {"model.hidden"}},
      {with("model.hidden: {vlaues: [8]}"), {"model.hidden.vlaues"}},
      {with("model.hidden: {values: []}"), {"model.hidden.values"}},
      {with("model.hidden: {values: [8, 8]}"), {}},
      {with("model.hidden: {values: [{a: 1}]}"), {"model.hidden.values"}},
      {with("model.hidden: {value: }"), {"model.hidden.value: found nothing"}},
      {with("model.hidden: {}"), {"model.hidden"}},
      {with("model.hidden: {min: 3}"), {"model.hidden"}},
      {with("model.hidden: {min: 3, max: 1}"), {"model.hidden"}},
      {with("model.hidden: {min: 3, max: x}"), {"model.hidden"}},
      {with("model.hidden: {min: 1.0, max: 9.0}"), {}},
      {with("model.hidden: {distribution: q_uniform, min: 1, max: 9, q: 0.5}"), {}},
      {with("model.type: {min: 1, max: 2.5}"), {}},
      {with("model.dropout: {distribution: unifrom, min: 0, max: 1}"), {"model.dropout.distribution: found 'unifrom'"}},
      {with("optimizer.learning_rate: {distribution: loguniform, min: 1.0e-4, max: 0.1}"), {}},
      {with("model.layers: {distribution: randint, min: 1, max: 4}"), {}},
      {with("loss.type: {distribution: choice, values: [listmle]}"), {}},
      {with("optimizer.learning_rate: {distribution: log_uniform, min: 1.0e-4, max: 1.0e-2}"), {}},
      {with("model.dropout: {distribution: uniform, min: 0, max: 0.5, mu: 1}"), {"model.dropout.mu"}},
      {with("model.dropout: {distribution: uniform, min: 0}"), {}},
      {with("model.dropout: {distribution: log_uniform_values, min: 0, max: 1}"), {}},
      {with("model.type: {values: [gcn, mlp], probabilities: [0.5, 0.6]}"), {}},
      {with("model.type: {values: [gcn, mlp], probabilities: [1]}"), {}},
      {with("run.directory: {values: [a, b]}"), {"s.yaml:5: run.directory"}},
      {with("model: {parameters: {hidden: {value: 1}}}\n  model.hidden: {value: 2}"), {"s.yaml:6: model.hidden"}},
  });
}

TEST(SweepErrors, TrialsAreCheckedAgainstTheSettings) {
  expect_errors({
      {kHead + "parameters:\n  model.hidden: {values: [0]}\n",
       {"s.yaml:5: trial 0: ", "model.hidden: found 0, expected >= 1"}},
      {kHead + "parameters:\n  model.type: {values: [gnc]}\n", {"s.yaml:5: trial 0: "}},
      {kHead + "parameters:\n  sampler.candidates_per_group: {values: [1]}\n",
       {"trial 0 (sampler.candidates_per_group=1)"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\nparameters:\n  model.dropout: "
       "{values: [0.1, 1.5]}\n",
       {"s.yaml:4: trial 1: ", "model.dropout"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\nparameters:\n  model.dropout: "
       "{min: 0.1, max: 0.9}\n",
       {"s.yaml:4: model.dropout"}},
  });
}

TEST(SweepErrors, DeferredTrialsAreCheckedAtEveryBoundAndValue) {
  const std::string head =
      "method: bayes\nrun_cap: 9\nmetric: {name: valid/opa}\noverrides: {data.train: [a], data.valid: [v], "
      "data.holdout: 0.1}\nparameters:\n"
      "  model.hidden: {min: 1, max: 8}\n  ";
  expect_errors({
      {head + "model.dropout: {min: 0.0, max: 1.5}\n", {"s.yaml:7", "expected in [0, 1)"}},
      {head + "model.dropout: {min: -0.5, max: 0.5}\n", {"s.yaml:7"}},
      {head + "model.type: {values: [gcn, gnc]}\n", {"s.yaml:7"}},
      {head + "sampler.candidates_per_group: {min: 1, max: 4}\n", {}},
      {head + "model.dropout: {distribution: normal, mu: 0.5, sigma: 0.3}\n", {"s.yaml:7"}},
      {head + "model.dropout: {value: 0.1}\nseeds: 3\n", {"s.yaml:8: seeds"}},
  });
}

TEST(SweepErrors, MetricAndEarlyTerminate) {
  const std::string head = kHead + kParameters;
  const std::string metric = head + "metric: {name: valid/opa}\n";  // five lines
  expect_errors({
      {head + "metric: loss\n", {"s.yaml:5: metric"}},
      {head + "metric: {goal: maximize}\n", {"s.yaml:5: metric"}},
      {head + "metric: {name: valid/opa, goal: maximise}\n", {"metric.goal: found 'maximise'"}},
      {head + "metric: {name: valid/opa, gaol: maximize}\n", {"metric.gaol"}},
      {head + "early_terminate: {type: hyperband, min_iter: 1}\n", {"s.yaml:5: early_terminate: needs metric"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1}\n",
       {"trainer.eval_every: found 0, expected > 0: early_terminate"}},
      {metric + "early_terminate: {min_iter: 1}\n", {"s.yaml:6: early_terminate"}},
      {metric + "early_terminate: {type: envelope}\n", {"early_terminate.type"}},
      {metric + "early_terminate: {type: hyperband}\n", {}},
      {metric + "early_terminate: {type: hyperband, max_iter: 9}\n", {}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, s: 2}\n", {}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, max_iter: 2, s: 1}\n", {}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, eta: 1}\n", {"eta"}},
      {metric + "early_terminate: {type: hyperband, max_iter: 2, s: 2}\n", {}},
      {metric + "early_terminate: {type: hyperband, min_iter: 0}\n", {"early_terminate.min_iter: found 0"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, strict: 3}\n", {"strict"}},
  });
}

TEST(SweepErrors, ThenSeedsAndOverrides) {
  const std::string head = kHead + kParameters;
  expect_errors({
      {head + "then: [evalute]\n", {"s.yaml:5: then: found 'evalute'"}},
      {head + "then:\n", {"s.yaml:5: then"}},
      {head + "then: [export, export]\n", {}},
      {head + "then: [{export: {format: onnx}}]\n", {"then.export: found options"}},
      {head + "then: [{evaluate: {fils: [a]}}]\n", {"then.evaluate.fils"}},
      {head + "then: [{evaluate: {set: {data.holdout: 2}}}]\n", {"s.yaml:5: ", "data.holdout"}},
      {head + "seeds: 0\n", {"seeds: found 0"}},
      {head + "seeds: []\n", {"seeds"}},
      {head + "seeds: [1, 1]\n", {"seeds"}},
      {kHead + "seeds: 2\nparameters: {trainer.seed: {values: [1]}}\n", {"s.yaml:4: seeds"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1, trainer: {stepz: 3}}\n" +
           kParameters,
       {"s.yaml:2: ", "trainer.stepz"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1, model.hidden: 3}\n" +
           kParameters,
       {"s.yaml:2: model.hidden"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1, trainer.steps: 0}\n" +
           kParameters,
       {"s.yaml:2: ", "trainer.steps: found 0, expected >= 1"}},
  });
}

TEST(SweepErrors, CommandLine) {
  const std::string text = kHead + kParameters;
  EXPECT_MESSAGE(error_of(text, {"run_cap"}), "override run_cap");
  EXPECT_MESSAGE(error_of(text, {"run_cap=x"}), "override run_cap=x: run_cap");
  EXPECT_MESSAGE(error_of(text, {"set.trainer.stepz=1"}));
  EXPECT_MESSAGE(error_of(text, {"model.hidden=3"}), "override model.hidden=3: model.hidden");
  EXPECT_MESSAGE(error_of(text, {"settings=none.yaml"}), "override settings=none.yaml: settings");
  EXPECT_THAT(error_of(text, {"seeds=[1"}), HasSubstr("override seeds=[1"));
  EXPECT_THAT(error_of(text, {"data.root=\xff"}), HasSubstr("not UTF-8"));
}

TEST(SweepErrors, BombsAreRefusedBeforeTheyCost) {
  std::string grid = "method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\nparameters:\n";
  for (const char* key : {"model.hidden", "trainer.steps", "trainer.log_every", "optimizer.warmup_steps"})
    grid += fmt::format("  {}: {{min: 1, max: 1000000000}}\n", key);
  EXPECT_THAT(error_of(grid), HasSubstr("set run_cap"));
  EXPECT_EQ(error_of(grid + "run_cap: 5\n"), "no exception") << "the first five are no bomb";
  EXPECT_MESSAGE(error_of(kHead + kParameters, {"run_cap=1000000"}));
  EXPECT_MESSAGE(error_of(kHead + kParameters, {"run_cap=60000", "seeds=2"}));

  std::string aliases = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = fmt::format("*a{}", i - 1);
    aliases += fmt::format("a{}: &a{} [", i, i);
    for (int j = 0; j < 10; ++j) aliases += (j ? ", " : "") + before;
    aliases += "]\n";
  }
  EXPECT_MESSAGE(error_of(aliases + kHead + kParameters));
  EXPECT_THAT(error_of("method: &m [*m]\n" + kParameters), HasSubstr("s.yaml"));

  EXPECT_THAT(error_of(fmt::format("method: {:[<100}{:]<100}\n", "", "")), HasSubstr("nested levels"));
  EXPECT_THAT(error_of(fmt::format("method: {:[<200000}\n", "")), HasSubstr("no YAML"));
  EXPECT_MESSAGE(error_of(std::string(configs::kMostYamlBytes + 1, '#')));
  EXPECT_MESSAGE(error_of("method: grid\n---\nmethod: grid\n"));
}

TEST(SweepErrors, DamagedFilesAreErrorsAndNeverMore) {
  const std::string whole =
      "method: random\nrun_cap: 2\nmetric: {name: valid/opa, goal: maximize}\nname: n\n"
      "overrides: {data.train: [a], data.valid: [v], data.holdout: 0.1, trainer: {eval_every: 5}}\nparameters:\n"
      "  model: {parameters: {layers: {min: 1, max: 3}}}\n"
      "  optimizer.learning_rate: {distribution: q_log_uniform_values, min: 0.1, max: 2, q: 0.1}\n"
      "  model.type: {values: [gcn, mlp], probabilities: [0.5, 0.5]}\n"
      "early_terminate: {type: hyperband, max_iter: 27, s: 2}\n"
      "then: [{evaluate: {files: [x], set: {data.holdout: 0.1}}}, export]\nseeds: [1, 2]\n";
  ASSERT_EQ(error_of(whole), "no exception");
  const std::string letters = "{}[]:,-&*!\"'#\n \t0e.~\xff<|>%@";
  int damaged = 0;
  for (int round = 0; round < 1500; ++round) {
    const auto draw = [&](uint64_t what) { return random_unit({static_cast<uint64_t>(round), what}); };
    std::string text = whole;
    const auto at = static_cast<size_t>(draw(0) * static_cast<double>(text.size()));
    const auto length = static_cast<size_t>(1 + draw(1) * 6);
    if (round % 3 == 0) text.erase(at, length);
    if (round % 3 == 1) text[at] = letters[static_cast<size_t>(draw(2) * static_cast<double>(letters.size()))];
    if (round % 3 == 2) text.insert(at, text.substr(static_cast<size_t>(draw(3) * 100), length));
    damaged += error_of(text) != "no exception";
  }
  EXPECT_GT(damaged, 700);
}

}  // namespace
}  // namespace foretime::jobs
