#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "worker/evaluation/evaluator.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// A checkpoint read by rank 0 (coordinator::read_best_or_newest) and handed to all, with its model on `device`. All
/// ranks call it.
TrainedModel load_for_all(const std::filesystem::path& checkpoint, comm::Communicator& comm, torch::Device device);

/// Evaluates a trained model on the groups of `settings.data`, sharded over the ranks; graphs are pruned and cut as in
/// its training, whatever `settings` say of that. `sets` as in evaluate(),
/// `on_scored` as in model_scorer(). Throws data::DataError; coordinator::RunError where the data do not have the
/// inputs that the model was trained on.
Evaluation evaluate_trained(const TrainedModel& trained, const configs::Settings& settings,
                            const std::vector<std::string>& sets, comm::Communicator& comm, torch::Device device,
                            std::function<void(int64_t)> on_scored = {});

/// A trained model of an ensemble, and the checkpoint's name for messages.
struct EnsembleMember {
  std::string name;
  TrainedModel trained;
};

/// Throws coordinator::RunError, naming both members, where one was trained on other inputs than the first: another
/// kind of candidates, other node features or types, or tensor programs in another representation. Architecture,
/// transforms, loss, segments and pruning may differ.
void check_same_inputs(const std::vector<EnsembleMember>& members);

/// Whether every member held out all candidates of training groups that `settings` hold out (data.holdout,
/// trainer.seed). Else some member has been trained on what would be evaluated.
bool hold_out_the_same(const std::vector<EnsembleMember>& members, const configs::Settings& settings);

/// Models that score candidates together, as models::joined_scores puts them together, each with the plans, segments
/// and pruned graph of its training. One member alone gives its own scores.
class Ensemble {
 public:
  /// Throws as check_same_inputs. At least one member.
  Ensemble(std::vector<EnsembleMember> members, torch::Device device);

  /// The settings and inputs of the first member.
  const TrainingState& state() const { return members_.front().trained.state; }
  /// Ranks all candidates of a group that was opened by `header`.
  GroupEvaluation rank(const data::GroupHeader& header, const data::Group& group) const;

 private:
  std::vector<EnsembleMember> members_;
  std::vector<Scorer> scorers_;
};

/// The evaluation of an ensemble from those of its members, of the same groups and candidates. All ranks call it; as
/// in Evaluation, groups are there on rank 0 alone. Throws coordinator::RunError on rank 0 where members evaluated
/// different candidates.
Evaluation joined_evaluation(const std::vector<Evaluation>& members, data::CandidateKind kind,
                             comm::Communicator& comm);

}  // namespace foretime::worker
