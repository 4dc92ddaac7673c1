#include <algorithm>

#include <fmt/format.h>

#include "configs/fields.h"
#include "configs/load.h"

namespace foretime::configs {
namespace {

/// Two settings that cannot be meant together.
struct Conflict {
  bool found;
  const char *key, *other;
  const char* reason;  // reason and remedy
};

/// Returns the message of the first conflict with `found`: both keys, their values and the reason; "" if there is none.
std::string first_conflict(const Settings& settings, std::initializer_list<Conflict> conflicts) {
  const auto* conflict = std::ranges::find(conflicts, true, &Conflict::found);
  if (conflict == conflicts.end()) return "";
  Settings copy = settings;
  const FieldList list = list_fields(copy);
  const auto value_of = [&](const char* key) { return write_value(list.field(key)->value); };
  const auto& [found, key, other, reason] = *conflict;
  return fmt::format("{}: found {} while {} is {}: {}", key, value_of(key), other, value_of(other), reason);
}

/// The model's type, those of a stacked model's layers, and those of trainer.baselines.
std::vector<std::string> used_types(const Settings& s) {
  std::vector<std::string> types = {word_of(s.model.type)};
  if (s.model.type == ModelType::stacked)
    for (const auto type : s.model.stacked.convolutions) types.push_back(word_of(type));
  for (const auto type : s.trainer.baselines) types.push_back(word_of(type));
  return types;
}

}  // namespace

bool is_read(const Settings& settings, const std::string& key) {
  const auto holds_key = [&](const std::string& type) { return key.starts_with("model." + type + "."); };
  return std::ranges::none_of(words_of<ModelType>(), holds_key) || std::ranges::any_of(used_types(settings), holds_key);
}

int64_t message_hops(const ModelSettings& settings) {
  const int64_t of_chebnet = settings.chebnet.order - 1;
  if (settings.type == ModelType::mlp) return 0;
  if (settings.type != ModelType::stacked)
    return settings.layers * (settings.type == ModelType::chebnet ? of_chebnet : 1);
  int64_t hops = 0;
  for (const auto type : settings.stacked.convolutions) hops += type == ConvolutionType::chebnet ? of_chebnet : 1;
  return hops;
}

std::string find_pruning_conflict(const Settings& s) {
  const bool prunes = s.data.prune_hops >= 0;
  return first_conflict(s, {{prunes && s.data.format != DataFormat::layout, "data.prune_hops", "data.format",
                             "only layout graphs have configurable nodes to stay near; set it to -1"},
                            {prunes && s.shard.max_rank_bytes > 0, "data.prune_hops", "shard.max_rank_bytes",
                             "parts are counted from headers, which lack the number of nodes after pruning; "
                             "set one of them to its default"}});
}

std::string find_conflict(const Settings& s) {
  const auto& m = s.model;
  const bool ranks = kind_of(s.loss.type) != LossKind::residual;
  const bool programs = s.data.format == DataFormat::programs, segments = s.sampler.max_segment_nodes > 0;
  const bool always_resident = s.sampler.resident_plans == ResidentPlans::always;
  const bool trees = s.data.representation == Representation::ast;
  const bool fasttext = m.node_types.vectors == NodeTypeVectors::fasttext;
  if (auto conflict = first_conflict(
          s,
          {{ranks && s.sampler.candidates_per_group == 1, "sampler.candidates_per_group", "loss.type",
            "expected at least 2, because this loss compares candidates with each other"},
           {s.trainer.early_stop.patience > 0 && s.trainer.eval_every == 0, "trainer.early_stop.patience",
            "trainer.eval_every", "without evaluations on the way no run stops early; set trainer.eval_every"},
           {s.comm.backend == Backend::nccl && s.trainer.device == Device::cpu, "comm.backend", "trainer.device",
            "NCCL reduces on GPUs only; set comm.backend to mpi"},
           {!trees && !programs, "data.representation", "data.format",
            "only tensor programs have several representations; set it to ast"},
           {!trees && fasttext, "model.node_types.vectors", "data.representation",
            "fasttext vectors are learned from walks through syntax trees; set them to learned"},
           {!programs && m.type == ModelType::tpgnn, "model.type", "data.format",
            "tpgnn ranks nodes in a separate graph of each candidate, which only programs have; choose another type"},
           {!programs && fasttext, "model.node_types.vectors", "data.format",
            "only the node types of programs have names to learn from; set it to learned"},
           {!fasttext && !s.data.node_type_vectors.empty(), "data.node_type_vectors", "model.node_types.vectors",
            "nothing would read it; set the latter to fasttext"},
           {m.type == ModelType::stacked && m.stacked.convolutions.empty(), "model.stacked.convolutions", "model.type",
            "name its layers, e.g. [chebnet, sage]"},
           {programs && m.collection_embedding > 0, "model.collection_embedding", "data.format",
            "only TpuGraphs has collections; set it to 0"},
           {m.layout_gate && m.encoder_layers == 0, "model.layout_gate", "model.encoder_layers",
            "the gate is a part of the encoder; set it to false, or the layers to 1"},
           {s.trainer.cross_fitting && (m.ensemble_size < 2 || m.ensemble_size > 255), "trainer.cross_fitting",
            "model.ensemble_size", "expected 2 to 255 models"},
           {s.trainer.cross_fitting && m.type == ModelType::statement_cost, "trainer.cross_fitting", "model.type",
            "expected any other type"},
           {s.trainer.cross_fitting && segments, "trainer.cross_fitting", "sampler.max_segment_nodes",
            "models of segments are trained together; set one to false or the other to 0"},
           {m.failure_output && !programs, "model.failure_output", "data.format",
            "only tensor programs may fail; set it to false"},
           {m.candidate_attention && segments, "model.candidate_attention", "sampler.max_segment_nodes",
            "candidates are compared as wholes, not by segments; set one to false or the other to 0"},
           {m.candidate_norm && segments, "model.candidate_norm", "sampler.max_segment_nodes",
            "candidates are compared as wholes, not by segments; set one to false or the other to 0"},
           {m.norm == Norm::batch && segments, "model.norm", "sampler.max_segment_nodes",
            "one segment's statistics are not the graph's; set it to layer"},
           {segments && s.data.format != DataFormat::layout, "sampler.max_segment_nodes", "data.format",
            "only layout graphs are cut into segments; set it to 0"},
           {always_resident && segments, "sampler.resident_plans", "sampler.max_segment_nodes",
            "each sample draws another segment; set it to auto, or the other to 0"},
           {always_resident && s.data.format != DataFormat::layout, "sampler.resident_plans", "data.format",
            "only layout graphs have states that candidates share; set it to auto"},
           {always_resident && m.sharing == StateSharing::none, "sampler.resident_plans", "model.sharing",
            "without shared states each candidate has its own; set it to auto, or the other to states"},
           {s.segments.finetune_steps > 0 && !segments, "segments.finetune_steps", "sampler.max_segment_nodes",
            "whole graphs are trained as they are evaluated; "
            "set sampler.max_segment_nodes, or segments.finetune_steps to 0"},
           {s.segments.finetune_steps >= s.trainer.steps, "segments.finetune_steps", "trainer.steps",
            "expected fewer, because the steps before train the whole model"},
           {segments && s.segments.stale == Stale::full_forward && s.shard.max_rank_bytes > 0, "segments.stale",
            "shard.max_rank_bytes",
            "a pass over the whole graph needs it on one rank; "
            "set segments.stale to scores or pools, or shard.max_rank_bytes to 0"}});
      !conflict.empty())
    return conflict;
  const int64_t before = s.averaging.start * s.trainer.steps;
  if (s.averaging.type == AveragingType::swa && s.averaging.every_steps > s.trainer.steps - before)
    return fmt::format(
        "averaging.every_steps: found {}, expected at most {}, the steps that are left of trainer.steps ({}) after "
        "averaging.start ({}): else no step would count",
        s.averaging.every_steps, s.trainer.steps - before, s.trainer.steps, s.averaging.start);
  return find_pruning_conflict(s);
}

}  // namespace foretime::configs
