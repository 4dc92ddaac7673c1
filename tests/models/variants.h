#pragma once

#include <string>
#include <utility>
#include <vector>

#include "configs/settings.h"

/// Ways in which a graph model can be set up, by name: each runs through the same tests (slow twin, finite differences,
/// batches, relabelled nodes, shared states).
namespace foretime::testing {

struct Variant {
  const char* name;
  void (*set)(configs::ModelSettings& settings);
};

inline const std::vector<Variant>& graph_variants() {
  using Settings = configs::ModelSettings;
  static const std::vector<Variant> variants = {
      {"mlp", [](Settings& s) { s.type = configs::ModelType::mlp; }},
      {"gcn", [](Settings& s) { s.type = configs::ModelType::gcn; }},
      {"residual_gcn", [](Settings& s) { s.type = configs::ModelType::residual_gcn; }},
      {"residual_gcn_embedded_layouts",
       [](Settings& s) {
         s.type = configs::ModelType::residual_gcn;
         s.features.layout = configs::LayoutFeatures::embedding;
         s.features.layout_embedding = 2;
       }},
      {"preactivated_gcn", [](Settings& s) { s.type = configs::ModelType::preactivated_gcn; }},
      {"sage", [](Settings& s) { s.type = configs::ModelType::sage; }},
      {"mlp_of_raw_inputs",
       [](Settings& s) {
         s.type = configs::ModelType::mlp;
         s.encoder_layers = 0;
       }},
      {"sage_of_raw_inputs",
       [](Settings& s) {
         s.type = configs::ModelType::sage;
         s.encoder_layers = 0;
         s.residual = false;
         s.features.layout = configs::LayoutFeatures::embedding;
       }},
      {"gat_of_a_narrow_encoder",
       [](Settings& s) {
         s.type = configs::ModelType::gat;
         s.encoder_hidden = 5;
       }},
      {"sage_max",
       [](Settings& s) {
         s.type = configs::ModelType::sage;
         s.sage.aggregation = configs::Aggregation::max;
       }},
      {"sage_sum_together",
       [](Settings& s) {
         s.type = configs::ModelType::sage;
         s.sage.aggregation = configs::Aggregation::sum;
         s.sage.directions = configs::Directions::together;
         s.l2_normalize = true;
         s.residual = false;
       }},
      {"gin", [](Settings& s) { s.type = configs::ModelType::gin; }},
      {"gin_together",
       [](Settings& s) {
         s.type = configs::ModelType::gin;
         s.gin.directions = configs::Directions::together;
         s.features.layout = configs::LayoutFeatures::learned_scale;
       }},
      {"gat", [](Settings& s) { s.type = configs::ModelType::gat; }},
      {"gat_together",
       [](Settings& s) {
         s.type = configs::ModelType::gat;
         s.gat.directions = configs::Directions::together;
         s.residual = false;
       }},
      {"transformer", [](Settings& s) { s.type = configs::ModelType::transformer; }},
      {"transformer_together",
       [](Settings& s) {
         s.type = configs::ModelType::transformer;
         s.transformer.directions = configs::Directions::together;
         s.transformer.heads = 1;
       }},
      {"chebnet", [](Settings& s) { s.type = configs::ModelType::chebnet; }},
      {"chebnet_of_two",
       [](Settings& s) {
         s.type = configs::ModelType::chebnet;
         s.chebnet.order = 2;
         s.residual = false;
       }},
      {"stacked",
       [](Settings& s) {
         s.type = configs::ModelType::stacked;
         s.stacked.convolutions = {configs::ConvolutionType::chebnet, configs::ConvolutionType::sage,
                                   configs::ConvolutionType::gat};
         s.norm = configs::Norm::layer;
       }},
      {"sage_batch_norm",
       [](Settings& s) {
         s.type = configs::ModelType::sage;
         s.norm = configs::Norm::batch;
       }},
      {"chebnet_batch_norm",
       [](Settings& s) {
         s.type = configs::ModelType::chebnet;
         s.norm = configs::Norm::batch;
       }},
      {"gcn_collections",
       [](Settings& s) {
         s.type = configs::ModelType::gcn;
         s.collection_embedding = 3;
       }},
      {"gcn_layout_gate",
       [](Settings& s) {
         s.type = configs::ModelType::gcn;
         s.layout_gate = true;
       }},
      {"gcn_candidate_norm",
       [](Settings& s) {
         s.type = configs::ModelType::gcn;
         s.candidate_norm = s.candidate_attention = true;
       }},
      {"gcn_candidate_attention",
       [](Settings& s) {
         s.type = configs::ModelType::gcn;
         s.candidate_attention = true;
       }},
  };
  return variants;
}

inline std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const auto& variant : graph_variants()) names.emplace_back(variant.name);
  return names;
}

inline void apply_variant(const std::string& name, configs::ModelSettings& settings) {
  settings.gat.heads = settings.transformer.heads = 2;
  for (const auto& variant : graph_variants()) {
    if (variant.name == name) variant.set(settings);
  }
}

}  // namespace foretime::testing
