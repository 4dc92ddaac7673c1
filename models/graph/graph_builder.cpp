#include "models/graph/graph_builder.h"

#include <numeric>

#include "base/check.h"
#include "inference/runtime/references.h"

namespace foretime::models {

GraphBuilder::Scope::Scope(GraphBuilder& builder, const std::string& name)
    : builder_(builder), before_(builder.prefix_.size()) {
  if (!name.empty()) builder_.prefix_ += name + ".";
}

GraphBuilder::Scope::~Scope() { builder_.prefix_.resize(before_); }

GraphBuilder::GraphBuilder() : embed_widths_("embed", false, shapes_), score_widths_("score", true, shapes_) {
  embed_widths_.provide(inference::kLayoutRows, data::kLayoutFeatures);
  embed_widths_.provide(inference::kCandidateFeatures, data::kTileFeatures);
}

WeightRef GraphBuilder::declare(TensorSpec spec) {
  FORETIME_CHECK(shapes_.emplace(spec.name, spec.shape).second, "two tensors are named {}", spec.name);
  tensors_.push_back(std::move(spec));
  return {tensors_.back().name};
}

WeightRef GraphBuilder::parameter(const std::string& name, std::vector<int64_t> shape, Initial initial) {
  return declare({named(name), std::move(shape), false, initial});
}

WeightRef GraphBuilder::buffer(const std::string& name, std::vector<int64_t> shape, double value) {
  return declare({named(name), std::move(shape), true, {Initial::Kind::constant, value}});
}

Linear GraphBuilder::linear(const std::string& name, int64_t inputs, int64_t outputs, bool bias) {
  Linear layer;
  layer.weight = parameter(name + ".weight", {outputs, inputs}, {Initial::Kind::linear_weight});
  if (bias)
    layer.bias = parameter(name + ".bias", {outputs}, {Initial::Kind::linear_bias, static_cast<double>(inputs)});
  return layer;
}

void GraphBuilder::provide_features(int64_t columns) { embed_widths_.provide(inference::kNodeFeatures, columns); }

int64_t GraphBuilder::width(Value value) const { return (scoring_ ? score_widths_ : embed_widths_).of(value); }

Value GraphBuilder::emit(inference::Operation operation) {
  auto& widths = scoring_ ? score_widths_ : embed_widths_;
  auto& nodes = scoring_ ? graph_.score : graph_.embed;
  try {
    std::visit(
        [&](const auto& o) {
          widths.begin(o.kName);
          widths.add(o.columns(widths));
        },
        operation);
  } catch (const inference::BundleError& error) {
    throw ModelError(error.what());
  }
  nodes.push_back({std::move(operation), full_});
  return inference::value_of(nodes.size() - 1);
}

Value GraphBuilder::dense(Value x, const Linear& layer, double slope) {
  return emit(inference::Dense{.x = x, .weight = layer.weight, .bias = layer.bias, .slope = slope});
}

Value GraphBuilder::dense_part(Value x, const WeightRef& weight, int64_t start) {
  return emit(inference::Dense{.x = x, .weight = weight, .bias = {}, .start = start});
}

Value GraphBuilder::csr_sum(const std::vector<Term>& terms, const WeightRef& bias, double slope) {
  inference::CsrSum sum{.bias = bias, .slope = slope};
  for (const auto& [matrix, x] : terms) {
    sum.matrices.push_back(matrix);
    sum.inputs.push_back(x);
  }
  return emit(std::move(sum));
}

Value GraphBuilder::add(std::vector<Value> inputs, std::vector<double> factors, const WeightRef& bias) {
  return emit(inference::Add{.inputs = std::move(inputs), .factors = std::move(factors), .bias = bias});
}

Value GraphBuilder::multiply(Value x, Value z) { return emit(inference::Multiply{.x = x, .z = z}); }

Value GraphBuilder::join(std::vector<Value> inputs) {
  return inputs.size() == 1 ? inputs.front() : emit(inference::Join{.inputs = std::move(inputs)});
}

Value GraphBuilder::average(std::vector<Value> inputs) {
  return inputs.size() == 1 ? inputs.front() : emit(inference::Average{.inputs = std::move(inputs)});
}

Value GraphBuilder::select(Value x, int64_t first, int64_t count) {
  std::vector<int64_t> columns(count);
  std::iota(columns.begin(), columns.end(), first);
  return emit(inference::Select{.x = x, .chosen = std::move(columns)});
}

Value GraphBuilder::activated(Value x, double slope) {
  return slope == 1.0 ? x : function(x, inference::Activate::Mode::leaky, slope);
}

Value GraphBuilder::function(Value x, inference::Activate::Mode mode, double number) {
  return emit(inference::Activate{.x = x, .mode = mode, .number = number});
}

Value GraphBuilder::dropout(Value x, double probability) {
  return probability > 0 ? emit(inference::Dropout{.x = x, .probability = probability}) : x;
}

Value GraphBuilder::l2_normalized(Value x) { return emit(inference::L2Normalize{.x = x}); }

Value GraphBuilder::pool(Value x, const MatrixRef& pool, inference::PoolStates::Mode mode) {
  return emit(inference::PoolStates{.x = x, .matrix = pool, .mode = mode});
}

Value GraphBuilder::pool_mean(Value sums, const MatrixRef& pool) {
  return emit(inference::PoolMean{.sums = sums, .matrix = pool});
}

Value GraphBuilder::detached(Value x) {
  (scoring_ ? graph_.score : graph_.embed).at(x.id - inference::kInputs).detached = true;
  return x;
}

void GraphBuilder::begin_score(Value embedded) {
  graph_.embedded = embedded;
  graph_.embedded_columns = width(embedded);
  score_widths_.provide(inference::kEmbedded, graph_.embedded_columns);
  scoring_ = full_ = true;
}

inference::Graph GraphBuilder::finish(plans::PlanRequest request, Value scores) {
  graph_.request = std::move(request);
  graph_.scores = scores;
  return std::move(graph_);
}

}  // namespace foretime::models
