#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/evaluation/evaluator.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// Reads a checkpoint on rank 0 (coordinator::read_best_or_newest) and returns the model, on `device`, on all ranks.
/// All ranks call it, and throw if one fails (comm::run_together).
TrainedModel load_for_all(const std::filesystem::path& checkpoint, comm::Communicator& comm, torch::Device device);

/// Evaluates a trained model on the groups of `settings.data`, divided among the ranks. Graphs are pruned and cut as in
/// the model's training, whatever `settings` say. For `sets` see evaluate(), for `on_scored` model_scorer(). All ranks
/// call it. Throws data::DataError, also if a table has other columns than the model's; coordinator::RunError for
/// another number of node features; configs::SettingsError if the data cannot be pruned as in the training.
Evaluation evaluate_trained(const TrainedModel& trained, const configs::Settings& settings,
                            const std::vector<std::string>& sets, comm::Communicator& comm, torch::Device device,
                            std::function<void(int64_t)> on_scored = {});

/// Holds a trained model of an ensemble, and the name of the model's checkpoint for messages.
struct EnsembleMember {
  std::string name;
  TrainedModel trained;
};

/// Throws coordinator::RunError, naming both members, if a member was trained on other inputs than the first: another
/// kind of candidates, other numbers of node features or types, a table of other columns, or tensor programs of another
/// data.representation or data.hardware. Architecture, transforms, loss, segments and pruning may differ.
void check_same_inputs(const std::vector<EnsembleMember>& members);

/// Returns whether every member held out all candidates of training groups that `settings` hold out: trainer.seed is
/// equal, and data.holdout is not larger than the member's. If not, a member may have trained on evaluated candidates.
bool have_equal_holdouts(const std::vector<EnsembleMember>& members, const configs::Settings& settings);

/// Scores candidates with several models and joins the scores (metrics::joined_scores). Graphs are pruned and cut for
/// each model as in that model's training. The scores of a single member are returned unchanged.
class Ensemble {
 public:
  /// Takes at least one member, with models on `device`. Throws as check_same_inputs does.
  Ensemble(std::vector<EnsembleMember> members, torch::Device device);

  /// Returns the settings and inputs of the first member.
  const TrainingState& state() const { return members_.front().trained.state; }
  /// Scores all candidates of a group, which must not be pruned yet. The result has the set "rank".
  GroupEvaluation rank(const data::Group& group) const;

 private:
  std::vector<EnsembleMember> members_;
  std::vector<Scorer> scorers_;
};

/// Returns the evaluation of an ensemble from the evaluations of one or more members on the same groups. All ranks call
/// it; groups are on rank 0 alone, as in Evaluation. Throws coordinator::RunError on rank 0 if members evaluated
/// different candidates; other ranks throw as comm::run_together does.
Evaluation joined_evaluation(const std::vector<Evaluation>& members, data::CandidateKind kind,
                             comm::Communicator& comm);

}  // namespace foretime::worker
