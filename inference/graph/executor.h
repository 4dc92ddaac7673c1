#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/graph/form.h"
#include "inference/kernels/matrix.h"
#include "plans/message_plan.h"

namespace foretime::inference {

/// A named weight: row-major, one or two dimensions.
struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

WeightShapes shapes_of(const Weights& weights);

/// Runs a form. Never changes after it was made: any number of threads may use one, each with a workspace of its own.
/// Products are OpenBLAS's and ours, by as many threads as OpenMP gives to the caller: libforetime allows one.
class Executor {
 public:
  /// Throws BundleError where the form does not fit the weights (check_form). `feature_count`: of node_features.
  Executor(Form form, std::shared_ptr<const Weights> weights, int64_t feature_count);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Form& form() const { return form_; }

  /// Each candidate of the plan for itself: [candidates, embedded_columns]. The plan must have been made by the form's
  /// request. Throws BundleError where the plan does not fit, and data::DataError as statement_parts does.
  Matrix embed(const plans::MessagePlan& plan, Workspace& workspace) const;

  /// Compares the candidates of each group. embedded [candidates, embedded_columns], `group_ptr` as in MessagePlan →
  /// [candidates]; lower is faster.
  std::vector<float> score(Matrix embedded, std::span<const int64_t> group_ptr, Workspace& workspace) const;

 private:
  class Run;
  struct Step {
    const Operation* operation;
    std::vector<size_t> inputs;  // slots of values
    size_t result;
    std::vector<const Weight*> weights;  // null: none
    std::vector<size_t> released;        // slots that nothing needs afterwards
  };
  struct List {
    std::vector<Step> steps;
    std::map<std::string, size_t> slots;
    size_t result = 0;
  };
  List compile(const std::vector<Operation>& operations, const std::vector<std::string>& inputs,
               const std::string& result) const;

  Form form_;
  std::shared_ptr<const Weights> weights_;
  int64_t feature_count_;
  List embed_, score_;
};

}  // namespace foretime::inference
