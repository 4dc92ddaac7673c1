#include "worker/run/tensorboard_log.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/foreign_file.h"
#include "configs/fields.h"
#include "configs/load.h"

namespace foretime::worker {
namespace {

/// Appends `values` to `all`, scaled to mean 0 and deviation 1; zeros if they are equal.
void add_standardized(const std::vector<double>& values, std::vector<double>& all) {
  const double n = values.size();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / n);
  for (const double value : values) all.push_back(deviation > 0 ? (value - mean) / deviation : 0);
}

/// The place of each in ascending order, 0 to 1; equal ones share the mean of theirs.
std::vector<double> places_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> places(values.size());
  const double last = std::max<double>(1, values.size() - 1.0);
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) places[order[i]] = (begin + end - 1) / 2.0 / last;
    begin = end;
  }
  return places;
}

}  // namespace

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
    add_standardized(kept, found.scores);
    add_standardized(logs, found.log_runtimes);
    const auto predicted = places_of(kept), measured = places_of(runtimes);
    for (size_t i = 0; i < predicted.size(); ++i) found.place_errors.push_back(predicted[i] - measured[i]);
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
