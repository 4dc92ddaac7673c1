#include "worker/run/tensorboard_log.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/foreign_file.h"
#include "configs/fields.h"
#include "configs/load.h"
#include "metrics/metrics.h"

namespace foretime::worker {

ScoreDistributions distributions_of(const Evaluation& evaluation, const std::string& set) {
  ScoreDistributions found;
  for (const auto& group : evaluation.groups) {
    const auto& scores = group.scores.scores;
    if (group.set != set || scores.size() != group.runtimes.size()) continue;
    std::vector<double> kept, runtimes, logs;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (!std::isfinite(scores[i]) || !std::isfinite(group.runtimes[i]) || group.runtimes[i] <= 0) continue;
      kept.push_back(scores[i]);
      runtimes.push_back(group.runtimes[i]);
      logs.push_back(std::log(group.runtimes[i]));
    }
    if (kept.empty()) continue;
    std::ranges::copy(metrics::standardized(kept), std::back_inserter(found.scores));
    std::ranges::copy(metrics::standardized(logs), std::back_inserter(found.log_runtimes));
    const auto predicted = metrics::ranks_of(kept), measured = metrics::ranks_of(runtimes);
    const double last = std::max(1.0, kept.size() - 1.0);
    for (size_t i = 0; i < kept.size(); ++i) found.place_errors.push_back((predicted[i] - measured[i]) / last);
  }
  return found;
}

tensorboard::Parameters parameters_of(configs::Settings settings) {
  constexpr uint64_t kMostBytes = 1 << 20;
  tensorboard::Parameters parameters;
  if (const auto text = read_foreign(settings.run.directory, "parameters.json", kMostBytes)) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_object()) {
      for (const auto& [key, value] : json.items())
        if (value.is_string()) parameters[key] = value.get<std::string>();
      return parameters;
    }
  }
  configs::Settings defaults;
  const auto own = configs::list_fields(settings), usual = configs::list_fields(defaults);
  for (size_t i = 0; i < own.fields.size(); ++i) {
    const auto& key = own.fields[i].key;
    if (key.starts_with("run.")) continue;
    const auto value = configs::write_value(own.fields[i].value);
    if (value != configs::write_value(usual.fields[i].value)) parameters[key] = value;
  }
  return parameters;
}

tensorboard::EventFile& TensorBoardLog::file(int64_t step) {
  if (file_) return *file_;
  file_.emplace(settings_.run.directory, step);
  if (!file_->is_new()) return *file_;
  file_->text("settings", "```yaml\n" + configs::to_yaml(settings_) + "```\n");
  file_->begin_hparams(parameters_of(settings_), settings_.trainer.metric);
  return *file_;
}

void TensorBoardLog::on_step(const StepEvent& event) {
  auto& events = file(event.step);
  if (!event.report) return;
  const auto& report = *event.report;
  const auto& ranks = report.ranks;
  std::map<std::string, double> values = {{"train/loss", event.loss},
                                          {"train/learning_rate", report.learning_rate},
                                          {"train/gradient_norm", report.gradient_norm},
                                          {"train/candidates_per_second", report.candidates_per_second},
                                          {"system/memory_mib", ranks.memory_mib},
                                          {"system/cpu_cores", ranks.cpu_cores},
                                          {"communication/wait_ms", ranks.comm_wait_ms},
                                          {"communication/exposed_ms", ranks.comm_exposed_ms},
                                          {"communication/exposed_share", ranks.comm_exposed_share}};
  if (ranks.gpu_percent >= 0) {
    values["system/gpu_percent"] = ranks.gpu_percent;
    values["system/gpu_memory_mib"] = ranks.gpu_memory_mib;
  }
  events.scalars(event.step, values);
}

void TensorBoardLog::on_evaluation(const EvaluationEvent& event) {
  auto& events = file(event.step + 1);
  events.scalars(event.step, event.evaluation.metrics);
  for (const std::string set : {"holdout", "valid"}) {
    const auto found = distributions_of(event.evaluation, set);
    events.histogram(event.step, set + "/distribution/scores", found.scores);
    events.histogram(event.step, set + "/distribution/log_runtimes", found.log_runtimes);
    events.histogram(event.step, set + "/distribution/place_errors", found.place_errors);
  }
}

void TensorBoardLog::on_checkpoint(const CheckpointEvent& event) { file(event.step + 1).sync(); }

void TensorBoardLog::on_end(const EndEvent& event) {
  auto& events = file(event.step + 1);
  std::map<std::string, double> values;
  for (const auto& [name, value] : event.evaluation.metrics) values[std::string(tensorboard::kFinal) + name] = value;
  events.scalars(event.step, values);
  events.end_hparams(event.step);
  events.sync();
}

}  // namespace foretime::worker
