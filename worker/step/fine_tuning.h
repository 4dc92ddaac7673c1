#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "sharding/shard_plan.h"
#include "worker/evaluation/evaluator.h"
#include "worker/state/training_state.h"
#include "worker/step/events.h"
#include "worker/store/group_store.h"

/// Fine-tuning: a trained model goes on learning from few candidates that were measured since
/// (docs/how-to/finetuning.md).

namespace foretime::worker {

/// The settings that a trained model is tuned with: those of its training, without its files and without what belongs
/// to a run of many steps (averages, cross-fitting, tie thresholds, segments). An epoch shows each candidate about
/// once.
configs::Settings tuning_settings(const configs::Settings& trained);

/// Groups that a trained model can go on learning from, listed, checked and divided. Held-out candidates are chosen by
/// hash of their configuration, by the seed of the settings: the same ones in every round that has them.
class TuningData {
 public:
  /// The groups of settings.data.train. Those whose candidates would all be held out are left out. Throws
  /// data::DataError; coordinator::RunError where the data do not have the inputs that the model was trained on.
  TuningData(const TrainedModel& trained, const configs::Settings& settings);

  const configs::Settings& settings() const { return settings_; }
  const sharding::DatasetIndex& dataset() const { return dataset_; }
  const sharding::ShardPlan& plan() const { return plan_; }
  const GroupStore& store() const { return *store_; }
  const std::vector<std::string>& left_out() const { return left_out_; }  // groups, by name
  int64_t trained_on() const { return trained_on_; }                      // candidates
  int64_t held_out() const { return held_out_; }

  /// How the model ranks the held-out candidates: set "holdout".
  Evaluation evaluate(const TrainedModel& trained) const;

 private:
  void check_inputs(const TrainedModel& trained) const;
  void divide(const sharding::DatasetIndex& listed);

  configs::Settings settings_;
  sharding::DatasetIndex dataset_;
  sharding::ShardPlan plan_;
  std::unique_ptr<GroupStore> store_;
  std::vector<std::string> left_out_;
  int64_t trained_on_ = 0, held_out_ = 0;
};

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
