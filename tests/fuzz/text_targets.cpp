#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/csv.h"
#include "base/error.h"
#include "base/text.h"
#include "configs/load.h"
#include "configs/machine_file.h"
#include "configs/metrics.h"
#include "experiments/document.h"
#include "history/history.h"
#include "jobs/error.h"
#include "jobs/progress/channel.h"
#include "jobs/progress/tcp.h"
#include "jobs/sweep/finetune_job.h"
#include "jobs/sweep/sweep.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {
namespace {

template <class Call>
void read_or_refuse(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    require(std::strlen(error.what()) > 0, "a refusal has a message", "");
    require(error.exit_code() == kUsage || error.exit_code() == kData, "text from outside is no reason for this",
            error.what());
  }
}

/// Settings that were read are printed, and are the same when they are read again.
void check_settings(const configs::Settings& settings) {
  const auto yaml = configs::to_yaml(settings);
  require(configs::to_yaml(configs::parse_settings(yaml, "printed")) == yaml,
          "printed settings are the same when they are read", "");
  configs::find_metric_conflict(settings, true);
  configs::metric_warning(settings);
}

/// A history that was read is packed, and what it keeps is read again.
void check_history(const history::History& history) {
  const auto text = history::pack(history, {});
  require(history::pack(history::unpack(text), {}) == text, "a packed history is the same when it is packed again", "");
  history::to_csv(history);
  history::to_json(history);
}

bool same(const jobs::ProgressMessage& a, const jobs::ProgressMessage& b) {
  auto left = a, right = b;
  for (auto* each : {&left, &right}) {
    if (std::isnan(each->loss)) each->loss = 0;
    each->invalid_entries.clear();  // names of entries that are no numbers, which are not sent on
    for (auto& [name, value] : each->metrics)
      if (std::isnan(value)) value = 0;
  }
  return left == right;
}

}  // namespace

void run_settings(std::string_view input) {
  if (input.empty()) return;
  const std::string text(input.substr(1));
  // Files that a sweep names are read; how many trials it has is bounded, and how long they take is not looked at here.
  const bool long_or_outside = text.find("settings") != std::string::npos || text.find("seeds") != std::string::npos;
  switch ((input.front() - '0') % 9) {
    case 0: return read_or_refuse([&] { check_settings(configs::parse_settings(text, "settings.yaml")); });
    case 1:
      if (long_or_outside) return;
      return read_or_refuse([&] {
        for (const auto& job : jobs::parse_sweep(text, "sweep.yaml", "/nowhere", {"run_cap=3"}).jobs) jobs::check(job);
      });
    case 2: return read_or_refuse([&] { jobs::parse_finetune({.name = "job", .settings = text}); });
    case 3: {
      std::vector<std::string> overrides;
      LineSplitter(4096, false).feed(text + "\n", [&](std::string line, bool) {
        overrides.push_back(std::move(line));
      });
      return read_or_refuse([&] { check_settings(configs::parse_settings("{}", "command line", overrides)); });
    }
    case 5: return read_or_refuse([&] { configs::parse_machine_file(text, "machine.yaml"); });
    case 6:
      if (long_or_outside || text.find('/') != std::string::npos) return;
      return read_or_refuse([&] {
        for (const auto& part : experiments::parse_experiments(text, "experiment.yaml", "/nowhere").parts)
          require(!part.full_name().empty(), "an experiment has a name", "");
      });
    case 7: return read_or_refuse([&] { check_history(history::unpack(text)); });
    case 8:
      require(!jobs::is_token_line(text, text + "x"), "another token is refused", "");
      return read_or_refuse([&] { jobs::parse_listen_address(text); });
    default:
      return read_or_refuse([&] {
        const auto table = parse_csv(text, "table.csv");
        for (size_t r = 0; r < table.rows.size(); ++r)
          require(table.rows[r].size() == table.columns.size(), "rows are as wide as the table", "");
      });
  }
}

void run_progress(std::string_view text) {
  LineSplitter splitter(jobs::kProgressLine, false);
  const auto take = [](const std::string& line, bool) {
    jobs::is_stop_line(line);
    read_or_refuse([&] {
      const auto message = jobs::parse_progress_message(line);
      const auto again = jobs::to_line(message);
      require(same(jobs::parse_progress_message(again.substr(0, again.size() - 1)), message),
              "a message is the same when it is sent on", "");
    });
  };
  const size_t half = text.size() / 2;
  splitter.feed(text.substr(0, half), take);
  splitter.feed(text.substr(half), take);
  splitter.finish(take);
}

namespace {
std::string packed_sample() {
  history::History history;
  for (int64_t step = 1; step <= 40; ++step)
    history.add(step * (step < 20 ? 1 : 3), {{"loss", 1.0 / step}, {"a b", -step}});
  return history::pack(history, {});
}
}  // namespace

std::vector<std::string> settings_seeds() {
  return {
      "0data: {format: layout, train: [a.npz], holdout: 0.1}\ntrainer: {metric: holdout/kendall_tau, steps: 10}\n",
      "0model: {type: stacked, stacked: {convolutions: [gat, sage]}, readout: [mean, sum]}\nloss: {type: huber}\n",
      "1method: random\nmetric: {name: holdout/mae, goal: minimize}\nrun_cap: 3\nseed: 7\noverrides: {data: {train: "
      "a.npz, holdout: 0.1}, loss.type: huber, trainer.eval_every: 5}\nearly_terminate: {type: hyperband, min_iter: 1, "
      "eta: 2}\n"
      "parameters:\n  optimizer.learning_rate: {distribution: log_uniform_values, min: 1e-4, max: 0.1}\n  "
      "model.hidden: {values: [8, 16]}\n"
      "  trainer: {parameters: {steps: {distribution: q_uniform, min: 10, max: 40, q: 10}}}\nthen: [evaluate, "
      "export]\n",
      "1method: grid\nparameters: {optimizer.learning_rate: {values: [0.1, 0.01]}, model.type: {value: "
      "gcn}}\noverrides: {data.train: [a.npz], "
      "data.valid: [b.npz]}\n",
      "1method: bayes\nmetric: {name: valid/opa}\nrun_cap: 2\nparameters: {optimizer.beta1: {min: 0.5, max: "
      "0.99}}\noverrides: {data.train: a, "
      "data.valid: b}\n",
      "2{model: a.foretime, records: [x.json], dags: d.json, steps: 10}\n",
      "3optimizer.learning_rate=3e-4\nmodel.readout=[mean, sum]\ntrainer.steps = 7\n",
      "4a,b\n1,\"x, \"\"y\"\"\"\n2,z\n",
      "5name: box\ntargets: [llvm -mcpu=core-avx2]\nhardware: {cores: 4}\ncopy_gb_s: {one: {median: 11}}\n",
      "6title: Two models\noverrides: {data: {train: [a.npz], test: [b.npz]}}\nfractions: [0.5, 1]\nseeds: 2\n"
      "metrics: [kendall_tau]\nentries:\n  - {label: gcn, set: {model.type: gcn}}\n  - {label: random, kind: random}\n"
      "variants: {small: {seeds: 1}}\n",
      "7" + packed_sample(),
      "8[::1]:7000-7010"};
}

std::vector<std::string> progress_seeds() {
  using Kind = jobs::ProgressMessage::Kind;
  std::vector<std::string> all;
  for (const auto& message : {jobs::ProgressMessage{.kind = Kind::hello, .pid = 77},
                              {.kind = Kind::progress, .step = 3, .total_steps = 9, .loss = 0.5, .eta_seconds = 2},
                              {.kind = Kind::evaluation, .step = 3, .iteration = 1, .metrics = {{"valid/mae", 0.25}}},
                              {.kind = Kind::checkpoint, .step = 3, .path = "runs/a"},
                              {.kind = Kind::result, .step = 9, .metrics = {{"test/opa", 1.0}}}})
    all.push_back(jobs::to_line(message));
  all.push_back(all[0] + all[1] + all[4] + jobs::stop_line("drain"));
  return all;
}

}  // namespace foretime::fuzz
