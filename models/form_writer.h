#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "inference/graph/form.h"

namespace foretime::models {

class CostModel;

/// Writes a model's form (inference/form.h): each part of a model emits what it does, beside the `forward` that does
/// it. Values are names of results. What depends on weights alone may be computed once: such tensors are constants,
/// which the bundle holds beside the weights.
class FormWriter {
 public:
  /// Weights are named as the model's parameters and buffers.
  explicit FormWriter(const CostModel& model);

  /// The name of a parameter or buffer of the model; "" for an undefined tensor. Throws ModelError for another tensor.
  std::string weight(const torch::Tensor& tensor) const;
  /// A tensor of its own, named `constant.N`.
  std::string constant(const torch::Tensor& tensor);

  /// Adds an operation under a new name, which it returns.
  std::string emit(inference::Operation operation);

  /// x weight[:, start …]ᵀ + bias, all named; see Operation.
  std::string dense(const std::string& x, const std::string& weight, const std::string& bias = {}, double slope = 1.0,
                    int64_t start = 0);
  /// The sum of products (matrix, value); "" is the identity.
  using Term = std::pair<std::string, std::string>;
  std::string csr_sum(const std::vector<Term>& terms, const std::string& bias = {}, double slope = 1.0);
  std::string add(const std::vector<std::string>& inputs, const std::vector<double>& factors = {},
                  const std::string& bias = {});
  std::string multiply(const std::string& x, const std::string& z);
  std::string join(const std::vector<std::string>& inputs);
  std::string select(const std::string& x, std::vector<int64_t> columns);
  std::string select(const std::string& x, int64_t first, int64_t count);
  /// mode leaky with this slope; 1 gives x back.
  std::string activated(const std::string& x, double slope);
  std::string activate(const std::string& x, const std::string& mode);
  std::string pool(const std::string& x, const std::string& pool, const std::string& mode);

  /// Ends a list and begins the next one.
  std::vector<inference::Operation> take();
  const std::map<std::string, torch::Tensor>& constants() const { return constants_; }

 private:
  std::map<const void*, std::string> names_;
  std::map<std::string, torch::Tensor> constants_;
  std::vector<inference::Operation> operations_;
  int64_t values_ = 0;
};

/// A model as a form, and the tensors that it names beside the model's own.
struct DescribedModel {
  inference::Form form;
  std::map<std::string, torch::Tensor> constants;
};

/// Throws ModelError for a model that has no form, saying why.
DescribedModel describe_model(const CostModel& model);

/// Where a convolution's messages come from, by names: CsrTensors of models/convolutions/convolution.h.
struct FormHop {
  std::vector<std::string> relations;
  std::string self;
};
using FormHops = std::vector<FormHop>;
struct FormLayout {
  std::string rows, row_of_state;  // empty: no layouts
};

/// own_states, by names.
std::string own_states(FormWriter& writer, const std::string& states, const FormHop& hop);

}  // namespace foretime::models
