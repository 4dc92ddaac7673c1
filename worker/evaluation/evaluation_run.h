#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/evaluation/evaluator.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// Reads a checkpoint on rank 0 (coordinator::read_best_or_newest) and returns its model, on `device`, to all ranks.
/// All ranks call it.
TrainedModel load_for_all(const std::filesystem::path& checkpoint, comm::Communicator& comm, torch::Device device);

/// Evaluates a trained model on the groups of `settings.data`, divided among the ranks. Graphs are pruned and cut as in
/// the model's training, whatever `settings` say. For `sets` see evaluate(), for `on_scored` model_scorer(). Throws
/// data::DataError, and coordinator::RunError if the data do not have the model's inputs.
Evaluation evaluate_trained(const TrainedModel& trained, const configs::Settings& settings,
                            const std::vector<std::string>& sets, comm::Communicator& comm, torch::Device device,
                            std::function<void(int64_t)> on_scored = {});

/// Holds a trained model of an ensemble, and the name of its checkpoint for messages.
struct EnsembleMember {
  std::string name;
  TrainedModel trained;
};

/// Throws coordinator::RunError, naming both members, where one was trained on other inputs than the first: another
/// kind of candidates, other node features or types, or tensor programs in another representation. Architecture,
/// transforms, loss, segments and pruning may differ.
void check_same_inputs(const std::vector<EnsembleMember>& members);

/// Returns whether every member held out all candidates of training groups that `settings` hold out (data.holdout,
/// trainer.seed). If not, some member was trained on candidates of the evaluation.
bool have_equal_holdouts(const std::vector<EnsembleMember>& members, const configs::Settings& settings);

/// Scores candidates with several models and joins the scores (metrics::joined_scores). Each model uses the plans,
/// segments and pruned graphs of its training. One member alone gives its own scores.
class Ensemble {
 public:
  /// Takes at least one member. Throws as check_same_inputs does.
  Ensemble(std::vector<EnsembleMember> members, torch::Device device);

  /// Returns the settings and inputs of the first member.
  const TrainingState& state() const { return members_.front().trained.state; }
  /// Ranks all candidates of a group that was opened by `header`.
  GroupEvaluation rank(const data::Group& group) const;

 private:
  std::vector<EnsembleMember> members_;
  std::vector<Scorer> scorers_;
};

/// Returns the evaluation of an ensemble from its members' evaluations, which must be of the same groups. All ranks
/// call it; groups are on rank 0 alone, as in Evaluation. Throws coordinator::RunError on rank 0 if members evaluated
/// different candidates.
Evaluation joined_evaluation(const std::vector<Evaluation>& members, data::CandidateKind kind,
                             comm::Communicator& comm);

}  // namespace foretime::worker
