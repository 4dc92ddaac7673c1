#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/graphs/schema.h"
#include "models/graph/error.h"
#include "models/layers/layers.h"

namespace foretime::models {
namespace {

using Kind = MatrixRef::Kind;

constexpr int64_t kLayoutValues = 8, kLeastLayoutValue = -1;  // number of dimensions, and the code for none

class InputEncoder {
 public:
  InputEncoder(GraphBuilder& builder, const configs::ModelSettings& settings, const InputSchema& schema,
               std::vector<FitSpec>& fits)
      : b_(builder), settings_(settings), schema_(schema), fits_(fits) {}

  EncodedInputs encode(bool activate_last) {
    const GraphBuilder::Scope scope(b_, "encoder");
    EncodedInputs inputs;
    const Value features = transformed_features();
    if (schema_.kind == data::CandidateKind::tile)
      inputs.tile_features =
          transformed("tile_features", inference::kCandidateFeatures, FitSpec::Source::tile_features, {});
    if (schema_.kind == data::CandidateKind::layout) inputs.layout_rows = layout_rows();
    const Value nodes = b_.join(node_columns(features));
    const bool joins_tiles = inputs.tile_features.defined() && settings_.tile_join == configs::TileJoin::early;
    const int64_t layout_width = inputs.layout_rows.defined() ? b_.width(inputs.layout_rows) : 0;
    const int64_t joined = layout_width + b_.width(nodes) + (joins_tiles ? data::kTileFeatures : 0);
    if (settings_.encoder_layers == 0) {
      inputs.states = joined_columns(inputs, nodes, joins_tiles);
      return inputs;
    }
    std::vector<int64_t> widths(settings_.encoder_layers + 1, settings_.hidden);
    widths[0] = joined;
    if (settings_.encoder_hidden > 0) std::fill(widths.begin() + 1, widths.end() - 1, settings_.encoder_hidden);
    const DenseStack dense(b_, "dense", widths, activation_slope(settings_),
                           {.bias = true, .activate_last = activate_last, .dropout = settings_.dropout});
    const bool gated = settings_.layout_gate && layout_width > 0;
    Linear gate, effect;
    if (gated) {
      gate = b_.linear("layout_gate", joined - layout_width, settings_.hidden, true);
      effect = b_.linear("layout_effect", layout_width, settings_.hidden, false);
    }
    const auto& weight = dense.first().weight;
    std::vector<GraphBuilder::Term> terms = {{{Kind::level_node}, b_.dense_part(nodes, weight, layout_width)}};
    if (layout_width > 0)
      terms.emplace_back(MatrixRef{Kind::level_layout_row}, b_.dense_part(inputs.layout_rows, weight, 0));
    if (joins_tiles)
      terms.emplace_back(MatrixRef{Kind::level_candidate},
                         b_.dense_part(inputs.tile_features, weight, layout_width + b_.width(nodes)));
    inputs.states = dense.after_first(b_, b_.csr_sum(terms, dense.first().bias, dense.first_slope()));
    if (gated) {
      const Value gates =
          b_.csr_sum({{{Kind::level_node}, b_.function(b_.dense(nodes, gate), inference::Activate::Mode::tanh)}});
      const Value effects = b_.csr_sum({{{Kind::level_layout_row}, b_.dense(inputs.layout_rows, effect)}});
      inputs.states = b_.add({inputs.states, b_.multiply(gates, effects)});
    }
    return inputs;
  }

 private:
  Value transformed(const char* name, Value x, FitSpec::Source of, std::vector<int64_t> columns) {
    const GraphBuilder::Scope scope(b_, name);
    const int64_t width = b_.width(x);
    const auto offset = b_.buffer("offset", {width}, 0.0), scale = b_.buffer("scale", {width}, 1.0);
    fits_.push_back({of, offset, scale, settings_.features, std::move(columns)});
    return b_.emit(inference::Transform{.x = x, .offset = offset, .scale = scale, .log = settings_.features.log});
  }

  Value transformed_features() {
    auto columns = chosen_columns(settings_.features.columns, schema_.kind, schema_.feature_count);
    Value x = inference::kNodeFeatures;
    if (std::ssize(columns) < schema_.feature_count) x = b_.emit(inference::Select{.x = x, .chosen = columns});
    return transformed("node_features", x, FitSpec::Source::node_features, std::move(columns));
  }

  Value layout_rows() {
    const auto& features = settings_.features;
    if (features.layout == configs::LayoutFeatures::learned_scale) {
      const auto factors =
          b_.parameter("layout_scale", {data::kLayoutFeatures}, {Initial::Kind::constant, features.layout_scale});
      return b_.emit(inference::Scale{.x = inference::kLayoutRows, .factors = factors});
    }
    if (features.layout == configs::LayoutFeatures::embedding) {
      const auto table =
          b_.parameter("layout_codes.weight", {data::kLayoutFeatures * kLayoutValues, features.layout_embedding},
                       {Initial::Kind::normal});
      return b_.emit(inference::LayoutCodes{
          .x = inference::kLayoutRows, .table = table, .values = kLayoutValues, .least = kLeastLayoutValue});
    }
    return b_.add({inference::kLayoutRows}, {features.layout_scale});
  }

  /// Node features, the vector of the node's type, and that of its graph's collection.
  std::vector<Value> node_columns(Value features) {
    std::vector<Value> columns = {features};
    if (settings_.node_type_embedding > 0)
      columns.push_back(b_.emit(inference::Lookup{.matrix = {Kind::node_types}, .table = node_types()}));
    if (settings_.collection_embedding > 0) {
      const auto table = b_.parameter("collections.weight", {data::kCollections, settings_.collection_embedding},
                                      {Initial::Kind::normal});
      columns.push_back(b_.emit(inference::Lookup{.matrix = {Kind::collections}, .table = table}));
    }
    return columns;
  }

  WeightRef node_types() {
    const std::vector<int64_t> shape = {schema_.node_type_count, settings_.node_type_embedding};
    if (settings_.node_types.vectors == configs::NodeTypeVectors::learned)
      return b_.parameter("node_types.weight", shape, {Initial::Kind::normal});
    if (schema_.kind != data::CandidateKind::program)
      throw ModelError(
          "model.node_types.vectors: fasttext, with layout or tile data, whose node types have no names; "
          "set it to learned");
    const auto table = b_.buffer("type_vectors", shape, 0.0);
    fits_.push_back({FitSpec::Source::type_vectors, table, {}});
    return table;
  }

  Value joined_columns(const EncodedInputs& inputs, Value nodes, bool joins_tiles) {
    std::vector<Value> columns;
    if (inputs.layout_rows.defined()) columns.push_back(b_.csr_sum({{{Kind::level_layout_row}, inputs.layout_rows}}));
    columns.push_back(b_.csr_sum({{{Kind::level_node}, nodes}}));
    if (joins_tiles) columns.push_back(b_.csr_sum({{{Kind::level_candidate}, inputs.tile_features}}));
    return b_.join(columns);
  }

  GraphBuilder& b_;
  const configs::ModelSettings& settings_;
  const InputSchema& schema_;
  std::vector<FitSpec>& fits_;
};

}  // namespace

std::vector<int64_t> chosen_columns(const std::vector<std::string>& names, data::CandidateKind kind,
                                    int64_t feature_count) {
  if (names.empty()) {
    std::vector<int64_t> all(feature_count);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const bool loops = kind == data::CandidateKind::program && data::are_loop_columns(feature_count);
  auto known = loops ? data::loop_column_names() : data::feature_names(kind);
  if (loops) known.resize(feature_count);
  if (std::ssize(known) != feature_count)
    throw ModelError(
        "model.features.columns: the data have {} columns of node features, expected the {} that have names; "
        "leave the list empty",
        feature_count, known.size());
  std::set<int64_t> chosen;
  for (const std::string& name : names) {
    const bool begins = name.ends_with('*');
    const auto beginning = std::string_view(name).substr(0, name.size() - (begins ? 1 : 0));
    bool found = false;
    for (size_t column = 0; column < known.size(); ++column) {
      if (begins ? !known[column].starts_with(beginning) : known[column] != name) continue;
      chosen.insert(column);
      found = true;
    }
    if (found) continue;
    const auto near = nearest_name(name, known);
    throw ModelError(
        "model.features.columns: '{}' is not a column of node features{}", name,
        near.empty() ? fmt::format(", expected {}", fmt::join(known, ", ")) : fmt::format("; is it {}?", near));
  }
  return {chosen.begin(), chosen.end()};
}

EncodedInputs encode_inputs(GraphBuilder& builder, const configs::ModelSettings& settings, const InputSchema& schema,
                            std::vector<FitSpec>& fits, bool activate_last) {
  return InputEncoder(builder, settings, schema, fits).encode(activate_last);
}

}  // namespace foretime::models
