#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "models/architectures/graph_model.h"
#include "models/layers/layers.h"

namespace foretime::models {
namespace {

using Kind = MatrixRef::Kind;

constexpr double kTieUlps = 256;  // scores nearer to each other than so many ulps of the largest are ties
constexpr double kTie = kTieUlps * 0x1p-23;

void check_tpgnn(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (schema.kind != data::CandidateKind::program)
    throw ModelError(
        "model.type: tpgnn, with layout or tile data; expected programs (data.format): its pooling ranks the nodes of "
        "each candidate's own graph");
  if (settings.norm != configs::Norm::none)
    throw ModelError("model.norm: {}, with model.type tpgnn, which has none; set it to none", word_of(settings.norm));
  const auto at_least = [](int64_t least, int64_t found, const char* setting) {
    if (found < least) throw ModelError("{}: {}, expected at least {}", setting, found, least);
  };
  at_least(1, settings.hidden, "model.hidden");
  at_least(1, settings.layers, "model.layers");
  at_least(1, settings.head_layers, "model.head_layers");
  if (!(settings.tpgnn.pool_ratio > 0 && settings.tpgnn.pool_ratio <= 1))
    throw ModelError("model.tpgnn.pool_ratio: {}, expected more than 0, at most 1", settings.tpgnn.pool_ratio);
}

/// One member: the score of each candidate.
Value tpgnn_member(GraphBuilder& b, const configs::ModelSettings& settings, const InputSchema& schema,
                   ModelGraph& model) {
  const double slope = activation_slope(settings);
  const Readout readout(settings.readout, schema.kind);
  Value x = encode_inputs(b, settings, schema, model.fits).states;
  MatrixRef adjacency{Kind::adjacency, -1}, normalized{Kind::normalized_adjacency, -1}, nodes{Kind::kept_nodes, -1};
  std::vector<Value> pooled;
  std::vector<PooledStates> unused;
  for (int64_t i = 0; i < settings.layers; ++i) {
    const auto linear = b.linear(fmt::format("layers.{}.linear", i), b.width(x), settings.hidden, true);
    x = b.emit(inference::CsrDense{
        .x = x, .matrices = {normalized}, .weights = {linear.weight}, .bias = linear.bias, .slope = slope});
    const double bound = 1 / std::sqrt(settings.hidden);
    const auto weight =
        b.parameter(fmt::format("pools.{}.weight", i), {settings.hidden}, {Initial::Kind::uniform, bound});
    x = b.emit(inference::TopNodes{.x = x,
                                   .adjacency = adjacency,
                                   .nodes = nodes,
                                   .weight = weight,
                                   .ratio = settings.tpgnn.pool_ratio,
                                   .tie = kTie});
    adjacency.at = normalized.at = nodes.at = x.id;
    pooled.push_back(readout(b, x, unused, nodes));
  }
  std::vector<int64_t> widths = {b.width(pooled.front())};
  for (int64_t i = 1; i < settings.head_layers; ++i) widths.push_back(std::max<int64_t>(1, widths.back() / 2));
  widths.push_back(output_columns(settings));
  const GraphBuilder::FullPrecision full(b);
  const Value summed = pooled.size() == 1 ? pooled.front() : b.add(pooled);
  const DenseStack head(
      b, "head", widths, slope,
      {.bias = settings.head_bias == configs::HeadBias::all, .activate_last = false, .dropout = settings.dropout});
  return head(b, summed);
}

}  // namespace

ModelGraph tpgnn(const configs::ModelSettings& settings, const InputSchema& schema) {
  check_tpgnn(settings, schema);
  ModelGraph model{.members_are_models = true,
                   .whole_graphs_only =
                       "model.type: tpgnn, which scores whole graphs only, with segments of graphs; "
                       "set sampler.max_segment_nodes to 0"};
  GraphBuilder builder;
  builder.provide_features(schema.feature_count);
  std::vector<Value> scores;
  const size_t count = std::max<int64_t>(1, settings.ensemble_size);
  for (size_t m = 0; m < count; ++m) {
    const GraphBuilder::Scope scope(builder, count > 1 ? fmt::format("members.{}", m) : "");
    scores.push_back(tpgnn_member(builder, settings, schema, model));
  }
  const int64_t columns = output_columns(settings);
  builder.begin_score(builder.join(scores));
  for (size_t m = 0; m < count; ++m)
    model.member_scores.push_back(
        count == 1 ? inference::kEmbedded
                   : builder.select(inference::kEmbedded, static_cast<int64_t>(m) * columns, columns));
  // One layer is enough: later ones are made of it, by what pooling leaves.
  plans::PlanRequest request{.layers = 1,
                             .relations = {{plans::Direction::both, plans::EdgeNorm::sum, /*self_loop=*/true}}};
  model.graph = builder.finish(std::move(request), builder.average(model.member_scores));
  model.tensors = builder.tensors();
  return model;
}

}  // namespace foretime::models
