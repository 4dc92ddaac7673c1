#include "models/architectures/graph_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "models/convolutions/convolution.h"
#include "models/layers/layers.h"

namespace foretime::models {
namespace {

using Kind = MatrixRef::Kind;

void check(const configs::ModelSettings& settings, const InputSchema& schema, bool joins_late) {
  const auto at_least = [](int64_t least, int64_t found, const char* setting) {
    if (found < least) throw ModelError("{}: {}, expected at least {}", setting, found, least);
  };
  at_least(1, settings.hidden, "model.hidden");
  at_least(0, settings.layers, "model.layers");
  at_least(0, settings.node_type_embedding, "model.node_type_embedding");
  at_least(0, settings.encoder_layers, "model.encoder_layers");
  at_least(1, settings.head_layers, "model.head_layers");
  at_least(0, schema.feature_count, "columns of node features");
  at_least(1, schema.node_type_count, "node types");
  const auto probability = [](double found, const char* setting) {
    if (found < 0 || found >= 1) throw ModelError("{}: {}, expected at least 0 and below 1", setting, found);
  };
  probability(settings.dropout, "model.dropout");
  probability(settings.edge_dropout, "model.edge_dropout");
  check_failure_output(settings, schema);
  if (Normalization::breaks_sharing(settings.norm) && joins_late)
    throw ModelError(
        "model.norm: graph, with model.tile_join late, where candidates share states; set model.tile_join to early");
}

/// A member of the model: it adds its operations and gives the candidates' embedding, then its scores.
class Member {
 public:
  Member(GraphBuilder& builder, const configs::ModelSettings& settings, const InputSchema& schema,
         const Propagation& propagation, ModelGraph& model)
      : b_(builder),
        settings_(settings),
        schema_(schema),
        propagation_(propagation),
        model_(model),
        slope_(activation_slope(settings)),
        readout_(settings.readout, schema.kind) {}

  Value embed() {
    const auto inputs = encode_inputs(b_, settings_, schema_, model_.fits, !propagation_.activates_before);
    const Value pooled = readout_(b_, propagate(inputs), model_.pools);
    const bool late = schema_.kind == data::CandidateKind::tile && settings_.tile_join == configs::TileJoin::late;
    const Value embedded = late ? b_.join({pooled, inputs.tile_features}) : pooled;
    std::vector<int64_t> widths(settings_.head_layers + 1, settings_.hidden);
    widths.front() = b_.width(embedded);
    if (settings_.candidate_attention) {
      log_temperature_ = b_.parameter("candidates.log_temperature", {1}, {});
      widths.front() *= 2;
    }
    widths.back() = output_columns(settings_);
    head_ = DenseStack(
        b_, "head", widths, slope_,
        {.bias = settings_.head_bias == configs::HeadBias::all, .activate_last = false, .dropout = settings_.dropout});
    return embedded;
  }

  Value score(Value embedded) {
    if (settings_.candidate_norm) embedded = b_.emit(inference::Standardize{.x = embedded});
    if (settings_.candidate_attention)
      embedded = b_.emit(inference::CandidateSoftmax{.x = embedded, .log_temperature = log_temperature_});
    return head_(b_, embedded);
  }

 private:
  Value propagate(const EncodedInputs& inputs) {
    Value x = inputs.states;
    std::vector<Normalization> norms;
    int64_t level = 0;
    const bool normalizes = settings_.norm != configs::Norm::none;
    const bool activates_in_convolution = !normalizes && !propagation_.activates_before;
    for (size_t i = 0; i < propagation_.layers.size(); ++i) {
      const Convolution& convolution = propagation_.layers[i];
      if (propagation_.residual && b_.width(x) != settings_.hidden)
        throw ModelError(
            "model.encoder_layers: 0, with {} input columns and model.hidden {}: a residual sum needs equal widths; "
            "set model.residual to false",
            b_.width(x), settings_.hidden);
      Messages messages{.states = x,
                        .hops = hops_of(convolution, level),
                        .layout_rows = inputs.layout_rows,
                        .layout_row = {Kind::level_layout_row, static_cast<int32_t>(level)},
                        .slope = activates_in_convolution ? slope_ : 1.0};
      level += convolution.hops;
      Value y;
      {
        const GraphBuilder::Scope scope(b_, fmt::format("layers.{}", i));
        y = convolution.build(b_, messages);
      }
      if (normalizes) {
        const Normalization norm(b_, fmt::format("norms.{}", i), settings_.norm, settings_.hidden);
        y = norm(b_, y, level);
        if (!propagation_.activates_before) y = b_.activated(y, slope_);
      }
      y = b_.dropout(y, settings_.dropout);
      x = propagation_.residual ? b_.add({messages.own(b_, x), y}) : y;
      if (propagation_.l2_normalize) x = b_.l2_normalized(x);
    }
    return propagation_.activates_before ? b_.activated(x, slope_) : x;
  }

  std::vector<Hop> hops_of(const Convolution& convolution, int64_t first) {
    std::vector<Hop> hops;
    const bool drops = settings_.edge_dropout > 0;
    if (drops) model_.drop_sets.emplace_back();
    for (int64_t layer = first; layer < first + convolution.hops; ++layer) {
      const int32_t at = layer;
      Hop hop{{}, {Kind::self, at}};
      for (const auto& relation : convolution.relations) {
        const auto known = std::find(propagation_.relations.begin(), propagation_.relations.end(), relation);
        MatrixRef matrix{Kind::relation, at, static_cast<int32_t>(known - propagation_.relations.begin())};
        if (drops) {
          matrix.drop_set = std::ssize(model_.drop_sets) - 1;
          model_.drop_sets.back().push_back(matrix);
        }
        hop.relations.push_back(matrix);
      }
      hops.push_back(std::move(hop));
    }
    return hops;
  }

  GraphBuilder& b_;
  const configs::ModelSettings& settings_;
  const InputSchema& schema_;
  const Propagation& propagation_;
  ModelGraph& model_;
  double slope_;
  Readout readout_;
  WeightRef log_temperature_;
  DenseStack head_;
};

}  // namespace

ModelGraph graph_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  const bool tiles = schema.kind == data::CandidateKind::tile,
             late = tiles && settings.tile_join == configs::TileJoin::late;
  check(settings, schema, late);
  const auto propagation = make_propagation(settings, schema);
  ModelGraph model{.members_are_models = true, .edge_dropout = settings.edge_dropout};
  GraphBuilder builder;
  builder.provide_features(schema.feature_count);
  std::vector<Member> members;
  std::vector<Value> embedded;
  const size_t count = std::max<int64_t>(1, settings.ensemble_size);
  for (size_t m = 0; m < count; ++m) {
    const GraphBuilder::Scope scope(builder, count > 1 ? fmt::format("members.{}", m) : "");
    members.emplace_back(builder, settings, schema, propagation, model);
    embedded.push_back(members.back().embed());
  }
  const int64_t columns = builder.width(embedded.front());
  builder.begin_score(builder.join(embedded));
  for (size_t m = 0; m < count; ++m) {
    const Value own = count == 1 ? inference::kEmbedded
                                 : builder.select(inference::kEmbedded, static_cast<int64_t>(m) * columns, columns);
    if (count > 1) model.member_states.push_back({embedded[m], own});
    model.member_scores.push_back(members[m].score(own));
  }
  plans::PlanRequest request{.relations = propagation.relations,
                             .tile_join = late ? configs::TileJoin::late : configs::TileJoin::early,
                             .tied = Readout(settings.readout, schema.kind).needs_tied(),
                             .collections = settings.collection_embedding > 0};
  for (const auto& layer : propagation.layers) request.layers += layer.hops;
  if (schema.kind == data::CandidateKind::layout && !Normalization::breaks_sharing(settings.norm)) {
    if (settings.sharing == configs::StateSharing::states) request.sharing = plans::Sharing::states;
    if (settings.sharing == configs::StateSharing::invariant) request.sharing = plans::Sharing::invariant;
  }
  if (schema.kind != data::CandidateKind::layout)
    model.whole_graphs_only = "segments of graphs, expected layout data; set sampler.max_segment_nodes to 0";
  if (settings.candidate_attention)
    model.whole_graphs_only = "model.candidate_attention: true, with segments of graphs; set it to false";
  else if (settings.candidate_norm)
    model.whole_graphs_only = "model.candidate_norm: true, with segments of graphs; set it to false";
  model.graph = builder.finish(std::move(request), builder.average(model.member_scores));
  model.tensors = builder.tensors();
  return model;
}

void check_failure_output(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (settings.failure_output && schema.kind != data::CandidateKind::program)
    throw ModelError("model.failure_output: true, but only tensor programs may fail; set it to false");
}

ModelGraph build_model(const configs::ModelSettings& settings, const InputSchema& schema) {
  if (settings.type == configs::ModelType::tpgnn) return tpgnn(settings, schema);
  if (settings.type == configs::ModelType::statement_cost) return statement_cost(settings, schema);
  return graph_model(settings, schema);
}

}  // namespace foretime::models
