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

/// What is wrong, and everything that the message must hold.
struct Case {
  std::string yaml;
  std::vector<std::string> parts;
};

const std::string kHead =
    "method: random\nrun_cap: 2\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\n";  // three lines
const std::string kParameters = "parameters: {model.hidden: {values: [8]}}\n";

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = error_of(c.yaml);
    for (const std::string& part : c.parts) EXPECT_THAT(message, HasSubstr(part)) << c.yaml;
  }
}

TEST(SweepErrors, TopLevel) {
  expect_errors({
      {"", {"s.yaml", "expected a map"}},
      {"- a\n", {"s.yaml", "a list of 1"}},
      {"method: [random\n", {"s.yaml:", "no YAML"}},
      {kHead, {"s.yaml: parameters: is missing"}},
      {kParameters, {"s.yaml: method: is missing"}},
      {kHead + kParameters + "metod: grid\n", {"s.yaml:5: metod: unknown key, did you mean method?"}},
      {kHead + kParameters + "xyzzy: 1\n", {"s.yaml:5: xyzzy", "expected one of method"}},
      {kHead + kParameters + "method: grid\n", {"s.yaml:5: method: found a second time, first at s.yaml:1"}},
      {"method: baye\n" + kParameters, {"s.yaml:1: method: found 'baye'", "did you mean bayes?"}},
      {"method: custom\n" + kParameters, {"found 'custom', expected one of grid, random, bayes"}},
      {kHead + kParameters + "scheduler: {engine: optuna}\n", {"s.yaml:5: ", "scheduler.engine"}},
      {kHead + kParameters + "seed: -1\n", {"s.yaml:5: seed: found '-1'"}},
      {kHead + kParameters + "priority: 4001\n", {"priority: found 4001, expected -4000 to 4000"}},
      {kHead + kParameters + "max_attempts: 0\n", {"max_attempts: found 0"}},
      {kHead + kParameters + "resources: {cpu: 1}\n", {"resources.cpu: unknown key, did you mean resources.cpus?"}},
      {kHead + kParameters + "resources: {ranks: 0}\n", {"resources.ranks: found 0, expected 1 to 65536"}},
      {kHead + kParameters + "resources: {ranks: {min: 2}}\n",
       {"s.yaml:5: resources.ranks: found no max, expected {min: 2, max: 8} or a number"}},
      {kHead + kParameters + "resources: {ranks: {max: 2}}\n", {"resources.ranks: found no min"}},
      {kHead + kParameters + "resources: {ranks: {min: 3, max: 2}}\n",
       {"resources.ranks: found min 3 and max 2, expected a max of at least min"}},
      {kHead + kParameters + "resources: {ranks: {min: 0, max: 2}}\n",
       {"resources.ranks.min: found 0, expected 1 to 65536"}},
      {kHead + kParameters + "resources: {ranks: {min: 1, mex: 2}}\n",
       {"resources.ranks.mex: unknown key, did you mean resources.ranks.max?"}},
      {kHead + kParameters + "resources: {ranks: [2, 8]}\n", {"resources.ranks: found"}},
      {kHead + kParameters + "resources: {ranks: 2, gpus: 4}\n",
       {"resources.gpus: found 4, expected 0 or 1", "set resources.ranks to 8 and resources.gpus to 1"}},
      {kHead + kParameters + "name: ''\n", {"name: found 0 bytes"}},
      {kHead + kParameters + "name: \"a\\nb\"\n", {"name: found control characters"}},
      {kHead + kParameters + fmt::format("name: {:x<300}\n", ""), {"name: found 300 bytes"}},
      {kHead + kParameters + "settings: none.yaml\n", {"s.yaml:5: settings: found ./none.yaml, which does not exist"}},
      {"method: random\nrun_cap: 1\n" + kParameters, {"data.train: found no files", "settings: my.yaml"}},
      {"method: random\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\n" + kParameters,
       {"run_cap: is missing", "run_cap=20"}},
      {"method: random\nrun_cap: 0\n" + kParameters, {"s.yaml:2: run_cap: found 0, expected 1 to"}},
      {"method: random\nrun_cap: 1.5\n" + kParameters, {"s.yaml:2: run_cap: found '1.5', expected an integer"}},
      {"method: bayes\nrun_cap: 1\n" + kParameters, {"s.yaml:1: method: found bayes without metric"}},
  });
}

TEST(SweepErrors, ParametersAreNamedWithPlace) {
  const auto with = [](const std::string& parameter) { return kHead + "parameters:\n  " + parameter + "\n"; };
  expect_errors({
      {kHead + "parameters: {}\n", {"s.yaml:4: parameters: found no parameters"}},
      {kHead + "parameters: [a]\n", {"s.yaml:4: parameters: found a list of 1, expected a map"}},
      {with("model.hiden: {value: 1}"), {"s.yaml:5: model.hiden: unknown setting, did you mean model.hidden?"}},
      {with("learning_rate: {value: 1}"), {"learning_rate: unknown setting, did you mean optimizer.learning_rate?"}},
      {with("model: {values: [1]}"), {"s.yaml:5: model: is a section"}},
      {with("model.hidden: 8"), {"model.hidden: found '8', expected a map such as {value: …}"}},
      {with("model.hidden: {vlaues: [8]}"), {"model.hidden.vlaues: unknown key, did you mean model.hidden.values?"}},
      {with("model.hidden: {values: []}"), {"model.hidden.values: expected a list of at least one"}},
      {with("model.hidden: {values: [8, 8]}"), {"found 8 a second time"}},
      {with("model.hidden: {values: [{a: 1}]}"), {"model.hidden.values: found a map"}},
      {with("model.hidden: {value: }"), {"model.hidden.value: found nothing"}},
      {with("model.hidden: {}"), {"model.hidden: found neither value"}},
      {with("model.hidden: {min: 3}"), {"model.hidden: found neither value"}},
      {with("model.hidden: {min: 3, max: 1}"), {"model.hidden: found min 3 above max 1"}},
      {with("model.hidden: {min: 3, max: x}"), {"model.hidden"}},
      {with("model.hidden: {min: 1.0, max: 9.0}"), {"found distribution uniform, expected int_uniform"}},
      {with("model.hidden: {distribution: q_uniform, min: 1, max: 9, q: 0.5}"), {"whole q"}},
      {with("model.type: {min: 1, max: 2.5}"), {"expected value or values: the setting takes a string"}},
      {with("model.dropout: {distribution: unifrom, min: 0, max: 1}"),
       {"model.dropout.distribution: found 'unifrom'", "did you mean uniform?"}},
      {with("optimizer.learning_rate: {distribution: loguniform, min: 1.0e-4, max: 0.1}"),
       {"found 'loguniform', which is log_uniform_values (min and max are values) here"}},
      {with("model.layers: {distribution: randint, min: 1, max: 4}"), {"found 'randint', which is int_uniform"}},
      {with("loss.type: {distribution: choice, values: [listmle]}"), {"found 'choice', which is categorical"}},
      {with("optimizer.learning_rate: {distribution: log_uniform, min: 1.0e-4, max: 1.0e-2}"),
       {"found min 0.0001 and max 0.01, which are exponents, so values from 1 to 1.01; log_uniform_values takes the "
        "values themselves"}},
      {with("model.dropout: {distribution: uniform, min: 0, max: 0.5, mu: 1}"),
       {"model.dropout.mu: has no meaning for uniform, which takes min, max"}},
      {with("model.dropout: {distribution: uniform, min: 0}"), {"found no max, which uniform needs"}},
      {with("model.dropout: {distribution: log_uniform_values, min: 0, max: 1}"), {"found min 0, expected > 0"}},
      {with("model.type: {values: [gcn, mlp], probabilities: [0.5, 0.6]}"), {"add up to 1.1"}},
      {with("model.type: {values: [gcn, mlp], probabilities: [1]}"), {"1 probabilities for 2 values"}},
      {with("run.directory: {values: [a, b]}"), {"s.yaml:5: run.directory: cannot be swept"}},
      {with("model: {parameters: {hidden: {value: 1}}}\n  model.hidden: {value: 2}"),
       {"s.yaml:6: model.hidden: found a second time, first at s.yaml:5"}},
  });
}

TEST(SweepErrors, TrialsAreCheckedAgainstTheSettings) {
  expect_errors({
      {kHead + "parameters:\n  model.hidden: {values: [0]}\n",
       {"s.yaml:5: trial 0: ", "model.hidden: found 0, expected >= 1"}},
      {kHead + "parameters:\n  model.type: {values: [gnc]}\n", {"s.yaml:5: trial 0: ", "found gnc, expected one of"}},
      {kHead + "parameters:\n  sampler.candidates_per_group: {values: [1]}\n",
       {"trial 0 (sampler.candidates_per_group=1)", "while loss.type is listmle: expected at least 2"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\nparameters:\n  model.dropout: "
       "{values: [0.1, 1.5]}\n",
       {"s.yaml:4: trial 1: ", "model.dropout: found 1.5, expected in [0, 1)"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1}\nparameters:\n  model.dropout: "
       "{min: 0.1, max: 0.9}\n",
       {"s.yaml:4: model.dropout: found distribution uniform, which has no grid"}},
  });
}

TEST(SweepErrors, DeferredTrialsAreCheckedAtEveryBoundAndValue) {
  const std::string head =
      "method: bayes\nrun_cap: 9\nmetric: {name: valid/opa}\noverrides: {data.train: [a], data.valid: [v], "
      "data.holdout: 0.1}\nparameters:\n"
      "  model.hidden: {min: 1, max: 8}\n  ";
  expect_errors({
      {head + "model.dropout: {min: 0.0, max: 1.5}\n",
       {"s.yaml:7: a trial: override model.dropout=1.", "expected in [0, 1)"}},
      {head + "model.dropout: {min: -0.5, max: 0.5}\n", {"s.yaml:7: a trial: override model.dropout=-0.5"}},
      {head + "model.type: {values: [gcn, gnc]}\n", {"s.yaml:7: a trial: override model.type=gnc"}},
      {head + "sampler.candidates_per_group: {min: 1, max: 4}\n", {"while loss.type is listmle: expected at least 2"}},
      {head + "model.dropout: {distribution: normal, mu: 0.5, sigma: 0.3}\n",
       {"s.yaml:7: a trial: override model.dropout="}},
      {head + "model.dropout: {value: 0.1}\nseeds: 3\n", {"s.yaml:8: seeds: found seeds with bayes"}},
  });
}

TEST(SweepErrors, MetricAndEarlyTerminate) {
  const std::string head = kHead + kParameters;
  const std::string metric = head + "metric: {name: valid/opa}\n";  // five lines
  expect_errors({
      {head + "metric: loss\n", {"s.yaml:5: metric: found 'loss', expected a map"}},
      {head + "metric: {goal: maximize}\n", {"s.yaml:5: metric: found no name"}},
      {head + "metric: {name: valid/opa, goal: maximise}\n",
       {"metric.goal: found 'maximise'", "did you mean maximize?"}},
      {head + "metric: {name: valid/opa, gaol: maximize}\n", {"metric.gaol: unknown key, did you mean metric.goal?"}},
      {head + "early_terminate: {type: hyperband, min_iter: 1}\n", {"s.yaml:5: early_terminate: needs metric"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1}\n",
       {"trainer.eval_every: found 0, expected > 0: early_terminate"}},
      {metric + "early_terminate: {min_iter: 1}\n", {"s.yaml:6: early_terminate: found no type"}},
      {metric + "early_terminate: {type: envelope}\n",
       {"early_terminate.type: found 'envelope', expected one of hyper"}},
      {metric + "early_terminate: {type: hyperband}\n", {"found neither min_iter, nor max_iter and s"}},
      {metric + "early_terminate: {type: hyperband, max_iter: 9}\n", {"found max_iter without s"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, s: 2}\n", {"found s without max_iter"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, max_iter: 2, s: 1}\n", {"expected one of them"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, eta: 1}\n", {"eta: found 1, expected > 1"}},
      {metric + "early_terminate: {type: hyperband, max_iter: 2, s: 2}\n", {"leaves no rung"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 0}\n", {"early_terminate.min_iter: found 0"}},
      {metric + "early_terminate: {type: hyperband, min_iter: 1, strict: 3}\n",
       {"strict: found '3', expected true or"}},
  });
}

TEST(SweepErrors, ThenSeedsAndOverrides) {
  const std::string head = kHead + kParameters;
  expect_errors({
      {head + "then: [evalute]\n", {"s.yaml:5: then: found 'evalute'", "did you mean evaluate?"}},
      {head + "then:\n", {"s.yaml:5: then: found nothing"}},
      {head + "then: [export, export]\n", {"found export a second time"}},
      {head + "then: [{export: {format: onnx}}]\n", {"then.export: found options"}},
      {head + "then: [{evaluate: {fils: [a]}}]\n",
       {"then.evaluate.fils: unknown key, did you mean then.evaluate.files?"}},
      {head + "then: [{evaluate: {set: {data.holdout: 2}}}]\n", {"s.yaml:5: ", "data.holdout: found 2, expected in"}},
      {head + "seeds: 0\n", {"seeds: found 0"}},
      {head + "seeds: []\n", {"seeds: found an empty list"}},
      {head + "seeds: [1, 1]\n", {"seeds: found 1 a second time"}},
      {kHead + "seeds: 2\nparameters: {trainer.seed: {values: [1]}}\n", {"s.yaml:4: seeds: found seeds while"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1, trainer: {stepz: 3}}\n" +
           kParameters,
       {"s.yaml:2: ", "trainer.stepz: unknown setting, did you mean trainer.steps?"}},
      {"method: grid\noverrides: {data.train: [a], data.valid: [v], data.holdout: 0.1, model.hidden: 3}\n" +
           kParameters,
       {"s.yaml:2: model.hidden: is swept at s.yaml:3"}},
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
