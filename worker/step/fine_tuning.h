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

/// Fine-tuning continues the training of a model on newly measured candidates (docs/how-to/finetuning.md).

namespace foretime::worker {

/// Returns the settings for fine-tuning a model from those of its training: without files, limits and shares of
/// candidates, averages, cross-fitting, tie thresholds, segments, accumulation and parts.
configs::Settings tuning_settings(const configs::Settings& trained);

/// Holds the groups that a trained model can be fine-tuned on, checked and divided into candidates to train on and
/// held-out ones. Whether a candidate is held out depends only on the hash of the configuration, the seed and
/// data.holdout, so that it is equal in every fine-tuning.
class TuningData {
 public:
  /// Opens the groups of settings.data.train, and skips groups whose candidates would all be held out. Throws
  /// data::DataError, also if none is left or one has no run times; coordinator::RunError as check_inputs() does.
  TuningData(const TrainedModel& trained, const configs::Settings& settings);

  const configs::Settings& settings() const { return settings_; }
  const sharding::DatasetIndex& dataset() const { return dataset_; }
  const sharding::ShardPlan& plan() const { return plan_; }
  const GroupStore& store() const { return *store_; }
  const std::vector<std::string>& skipped_groups() const { return skipped_groups_; }  // names of the skipped groups
  int64_t training_candidates() const { return training_candidates_; }  // number of candidates to train on
  int64_t heldout_candidates() const { return heldout_candidates_; }    // number of held-out candidates

  /// Evaluates the model on the held-out candidates, which are the set "holdout" of the result.
  Evaluation evaluate(const TrainedModel& trained) const;

 private:
  /// Throws coordinator::RunError if a group has another number of node features than the model, or unknown node types.
  void check_inputs(const TrainedModel& trained) const;
  /// Counts training and held-out candidates of `listed`, and adds groups that are not skipped to dataset_.
  void divide(const sharding::DatasetIndex& listed);

  configs::Settings settings_;
  sharding::DatasetIndex dataset_;
  sharding::ShardPlan plan_;
  std::unique_ptr<GroupStore> store_;
  std::vector<std::string> skipped_groups_;
  int64_t training_candidates_ = 0, heldout_candidates_ = 0;
};

/// Sets how fine_tune() trains.
struct FineTuning {
  int64_t steps = 0;         // number of optimiser steps
  double learning_rate = 0;  // peak of the schedule, which rises over the first tenth of the steps and then falls to 0
  double replay_weight = 1.0;  // weight of the loss on `replay`; that on `fresh` has the weight 1
  /// Position of the result between the weights before (0) and after (1) fine-tuning. With 0.5 the model changes less
  /// on earlier data and fits `fresh` less closely (Wortsman et al., "Robust fine-tuning", arXiv 2109.01903).
  double interpolation_weight = 1.0;
  TrainingListener* listener = nullptr;  // receives each step, with the loss on fresh candidates; may be null
};

/// Fine-tunes the parameters of `trained.model` on the CPU with the loss, sampler and optimiser of fresh.settings().
/// Every step uses a batch of `fresh`, and one of `replay` unless it is null. Feature transforms, the target transform
/// and running statistics do not change, so that scores remain comparable. The result depends only on the arguments.
/// Throws coordinator::RunError if the training diverges; the model is then unusable.
void fine_tune(const TrainedModel& trained, const TuningData& fresh, const TuningData* replay, const FineTuning& how);

}  // namespace foretime::worker
