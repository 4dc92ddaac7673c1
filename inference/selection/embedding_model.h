#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "inference/bundle/bundle.h"
#include "inference/scoring/model.h"

namespace foretime::inference {

/// A bundle's model that tells, beside scores, where it places candidates: rows of hidden states, in which candidates
/// that it treats alike lie near to each other; and what each member of an ensemble says. Hidden states are what the
/// last layers score: of models that score what `embed` gives, that; of others the inputs of their last linear layer,
/// for the statement model the mean over a program's statements, each by its share of the predicted run time (the
/// gradient of the score by the layer's weights).
class EmbeddingModel {
 public:
  /// Throws BundleError as read_scoring_spec does.
  explicit EmbeddingModel(Bundle bundle, const Options& options = {});

  /// Scores as the bundle does; what its scorers give as `embedded` has more columns than that of the bundle.
  const std::shared_ptr<const Model>& model() const { return model_; }
  /// Models whose mean score it gives; 1 where it is no ensemble.
  size_t members() const { return members_.size(); }
  /// False for graphs of a form that is not known here.
  bool has_hidden_states() const { return hidden_columns_ > 0; }

  /// Of `embedded`, the rows that a scorer of model() gave for the candidates of one group: [members][candidates].
  std::vector<std::vector<float>> member_scores(const Matrix& embedded) const;
  /// Likewise: [members] of [candidates, columns].
  std::vector<Matrix> hidden_states(const Matrix& embedded) const;

 private:
  std::shared_ptr<const Model> model_;
  std::vector<std::unique_ptr<const Executor>> members_;
  int64_t first_hidden_ = 0, hidden_columns_ = 0;  // columns of `embedded`, of all members
};

}  // namespace foretime::inference
