#include "models/form_writer.h"

#include <numeric>

#include <fmt/format.h>

#include "models/model.h"

namespace foretime::models {

FormWriter::FormWriter(const CostModel& model) {
  for (const auto& item : model.named_parameters()) names_[item.value().unsafeGetTensorImpl()] = item.key();
  for (const auto& item : model.named_buffers()) names_[item.value().unsafeGetTensorImpl()] = item.key();
}

std::string FormWriter::weight(const torch::Tensor& tensor) const {
  if (!tensor.defined()) return {};
  const auto found = names_.find(tensor.unsafeGetTensorImpl());
  if (found == names_.end()) throw ModelError("form: a tensor that is neither parameter nor buffer of the model");
  return found->second;
}

std::string FormWriter::constant(const torch::Tensor& tensor) {
  auto name = fmt::format("constant.{}", constants_.size());
  constants_.emplace(name, tensor.detach().to(torch::kCPU, torch::kFloat).contiguous().clone());
  return name;
}

std::string FormWriter::emit(inference::Operation operation) {
  operation.result = fmt::format("v{}", values_++);
  operations_.push_back(std::move(operation));
  return operations_.back().result;
}

std::string FormWriter::dense(const std::string& x, const std::string& weight, const std::string& bias, double slope,
                              int64_t start) {
  inference::Operation o{.op = "dense", .result = {}, .inputs = {x}, .weights = {weight, bias}};
  if (slope != 1.0) o.numbers["slope"] = slope;
  if (start != 0) o.numbers["start"] = static_cast<double>(start);
  return emit(std::move(o));
}

std::string FormWriter::csr_sum(const std::vector<Term>& terms, const std::string& bias, double slope) {
  inference::Operation o{.op = "csr_sum", .result = {}};
  for (const auto& [matrix, value] : terms) {
    o.matrices.push_back(matrix);
    o.inputs.push_back(value);
  }
  if (!bias.empty()) o.weights = {bias};
  if (slope != 1.0) o.numbers["slope"] = slope;
  return emit(std::move(o));
}

std::string FormWriter::add(const std::vector<std::string>& inputs, const std::vector<double>& factors,
                            const std::string& bias) {
  inference::Operation o{.op = "add", .result = {}, .inputs = inputs};
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] != 1.0) o.numbers[fmt::format("factor{}", i)] = factors[i];
  }
  if (!bias.empty()) o.weights = {bias};
  return emit(std::move(o));
}

std::string FormWriter::multiply(const std::string& x, const std::string& z) {
  return emit({.op = "multiply", .result = {}, .inputs = {x, z}});
}

std::string FormWriter::join(const std::vector<std::string>& inputs) {
  return inputs.size() == 1 ? inputs.front() : emit({.op = "join", .result = {}, .inputs = inputs});
}

std::string FormWriter::select(const std::string& x, std::vector<int64_t> columns) {
  return emit({.op = "select", .result = {}, .inputs = {x}, .columns = std::move(columns)});
}

std::string FormWriter::select(const std::string& x, int64_t first, int64_t count) {
  std::vector<int64_t> columns(static_cast<size_t>(count));
  std::iota(columns.begin(), columns.end(), first);
  return select(x, std::move(columns));
}

std::string FormWriter::activated(const std::string& x, double slope) {
  if (slope == 1.0) return x;
  return emit({.op = "activate", .result = {}, .inputs = {x}, .mode = "leaky", .numbers = {{"slope", slope}}});
}

std::string FormWriter::activate(const std::string& x, const std::string& mode) {
  return emit({.op = "activate", .result = {}, .inputs = {x}, .mode = mode});
}

std::string FormWriter::pool(const std::string& x, const std::string& pool, const std::string& mode) {
  return emit({.op = "pool", .result = {}, .inputs = {x}, .matrices = {pool}, .mode = mode});
}

std::vector<inference::Operation> FormWriter::take() { return std::exchange(operations_, {}); }

DescribedModel describe_model(const CostModel& model) {
  const torch::NoGradGuard no_gradient;
  FormWriter writer(model);
  DescribedModel result;
  auto& form = result.form;
  form.request = model.form_request();
  form.statements = model.form_needs_statements();
  form.embedded = model.describe_embed(writer);
  form.embedded_columns = model.embedded_columns();
  form.embed = writer.take();
  form.scores = model.describe_score(writer, inference::kEmbedded);
  form.score = writer.take();
  result.constants = writer.constants();
  return result;
}

std::string own_states(FormWriter& writer, const std::string& states, const FormHop& hop) {
  return writer.csr_sum({{hop.self, states}});
}

}  // namespace foretime::models
