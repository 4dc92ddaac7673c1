#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "inference/bundle/bundle.h"
#include "inference/scoring/model.h"

namespace foretime::inference {

/// Gives, in addition to scores, the hidden states of a bundle's model, which are near to each other for candidates
/// that the model treats alike, and the scores of each member of an ensemble. Hidden states are the inputs of the last
/// layers: the result of `embed` for models that score it directly; the inputs of the last linear layer for others; for
/// the statement model the mean over a program's statements, weighted by their shares of the predicted run time (the
/// gradient of the score by the layer's weights).
class EmbeddingModel {
 public:
  /// Takes a bundle. Throws BundleError as read_scoring_spec does.
  explicit EmbeddingModel(Bundle bundle, const Options& options = {});

  /// Returns a model with the bundle's scores. The results of its scorers in `embedded` have more columns than the
  /// bundle's.
  const std::shared_ptr<const Model>& model() const { return model_; }
  /// Returns the number of models whose mean score it gives; 1 if it is no ensemble.
  size_t members() const { return members_.size(); }
  /// Returns false for graphs without a known last layer.
  bool has_hidden_states() const { return hidden_columns_ > 0; }

  /// Returns the scores of each member, [members][candidates], from `embedded`, a result of a scorer of model() for the
  /// candidates of one group.
  std::vector<std::vector<float>> member_scores(const Matrix& embedded) const;
  /// Returns the hidden states of each member, [members] of [candidates, columns], from `embedded` as in member_scores.
  std::vector<Matrix> hidden_states(const Matrix& embedded) const;

 private:
  std::shared_ptr<const Model> model_;
  std::vector<std::unique_ptr<const Executor>> members_;
  int64_t first_hidden_ = 0, hidden_columns_ = 0;  // range of columns in `embedded`, for all members
};

}  // namespace foretime::inference
