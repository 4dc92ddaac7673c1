#include "worker/step/run_recorder.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foretime::worker {

void RunRecorder::on_step(const StepEvent& event) {
  if (!event.report) return;
  const auto& report = *event.report;
  nlohmann::json line = {{"kind", "train"},
                         {"step", event.step},
                         {"loss", event.loss},
                         {"learning_rate", report.learning_rate},
                         {"gradient_norm", report.gradient_norm},
                         {"candidates_per_second", report.candidates_per_second},
                         {"seconds", report.seconds}};
  line.update(to_json(report.ranks));
  run_.directory->append_metrics(line);
  if (is_straggling(report.ranks) &&
      std::exchange(straggler_, report.ranks.straggler_rank) != report.ranks.straggler_rank)
    run_.log.info("{}", describe_straggler(report.ranks));
}

void RunRecorder::on_evaluation(const EvaluationEvent& event) {
  nlohmann::json line = {{"kind", "eval"}, {"step", event.step}};
  std::string text;
  for (const auto& [name, value] : event.evaluation.metrics) {
    line[name] = value;
    if (name.ends_with("/kendall_tau") || name.ends_with("/mae")) text += fmt::format("  {} {:.4g}", name, value);
  }
  run_.directory->append_metrics(line);
  run_.log.info("step {}{}", event.step, text);
}

void RunRecorder::on_end(const EndEvent& event) {
  nlohmann::json line = {{"kind", "final"}, {"step", event.step}, {"best_step", event.best_step}};
  for (const auto& [name, value] : event.evaluation.metrics) line[name] = value;
  run_.directory->append_metrics(line);
  run_.directory->write("rankings.csv", rankings_csv(event.evaluation));
}

}  // namespace foretime::worker
