#pragma once

#include <cstdint>

#include "worker/state/training_state.h"
#include "worker/step/events.h"
#include "worker/step/tuning_data.h"

/// Fine-tuning: a trained model goes on learning from few candidates that were measured since
/// (docs/how-to/finetuning.md).
namespace foretime::worker {

struct FineTuning {
  int64_t steps = 0;
  double learning_rate = 0;    // the largest one: it rises over the first tenth of the steps, and falls to 0
  double replay_weight = 1.0;  // of the loss on candidates that the model has learned from before
  /// How far the result lies on the way from the weights before to those after the last step. Half way forgets less and
  /// fits few candidates less closely (Wortsman et al., "Robust fine-tuning", arXiv 2109.01903).
  double interpolation_weight = 1.0;
  TrainingListener* listener = nullptr;  // told of each step, with the loss on fresh candidates; may be null
};

/// Trains the parameters of `trained.model` by the loss, sampler and optimiser of its training, on the candidates of
/// `fresh` and, in every step beside them, of `replay` where it is not null. Feature transforms, the target transform
/// and running statistics stay, so that scores before and after mean the same. A pure function of its arguments and
/// the seed of the settings. Throws coordinator::RunError where it diverges; the model is then of no use.
void fine_tune(const TrainedModel& trained, const TuningData& fresh, const TuningData* replay, const FineTuning& how);

}  // namespace foretime::worker
