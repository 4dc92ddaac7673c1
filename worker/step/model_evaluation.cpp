#include "worker/step/model_evaluation.h"

#include <utility>

#include "worker/evaluation/segment_evaluation.h"

namespace foretime::worker {

void ModelEvaluation::fit_thresholds() {
  const auto& settings = run_.settings;
  if (settings.trainer.tie_threshold_candidates == 0 || std::exchange(thresholds_fitted_, true)) return;
  const AveragedWeights averaged(*run_.model, run_.average.get());
  const ScoringOptions options{.settings = settings,
                               .targets = run_.state.targets,
                               .device = run_.device,
                               .max_states = settings.trainer.eval_states};
  std::vector<Scorer> scorers;
  for (const auto& model : settings.trainer.cross_fitting ? run_.model->members() : std::vector{run_.model})
    scorers.push_back(scorer_for(model, options));
  run_.state.tie_thresholds = fit_tie_thresholds(scorers, settings.trainer.tie_threshold_candidates, run_.data());
}

Evaluation ModelEvaluation::evaluate(const std::vector<std::string>& sets) {
  const ProfileSpan span(run_.profiler, "evaluation");
  fit_thresholds();
  const AveragedWeights averaged(*run_.model, run_.average.get());
  ScoringOptions options{.settings = run_.settings,
                         .targets = run_.state.targets,
                         .tie_thresholds = run_.state.tie_thresholds,
                         .device = run_.device,
                         .max_states = run_.settings.trainer.eval_states};
  if (run_.root()) options.on_scored = [this](int64_t candidates) { events_.on_scored(candidates); };
  return evaluate_model(run_.model, options, sets, run_.data());
}

Evaluation ModelEvaluation::evaluate_constant() const {
  return worker::evaluate(constant_scorer(run_.state.train_mean_runtime), {"holdout", "valid", "test"}, run_.data());
}

}  // namespace foretime::worker
