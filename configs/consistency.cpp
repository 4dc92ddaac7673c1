#include "configs/consistency.h"

#include <fmt/format.h>

namespace foretime::configs {
namespace {

std::string find_segment_conflict(const Settings& s) {
  const int64_t most = s.sampler.max_segment_nodes;
  if (most > 0 && s.data.format != "layout") {
    return fmt::format(
        "sampler.max_segment_nodes: found {} while data.format is {}: only layout graphs are cut into segments; set it "
        "to 0",
        most, s.data.format);
  }
  if (s.segments.finetune_steps > 0 && most == 0) {
    return fmt::format(
        "segments.finetune_steps: found {} while sampler.max_segment_nodes is 0: whole graphs are trained as they are "
        "evaluated; set sampler.max_segment_nodes, or segments.finetune_steps to 0",
        s.segments.finetune_steps);
  }
  if (s.segments.finetune_steps >= s.trainer.steps) {
    return fmt::format(
        "segments.finetune_steps: found {}, expected fewer than trainer.steps ({}): the steps before train the whole "
        "model",
        s.segments.finetune_steps, s.trainer.steps);
  }
  if (most > 0 && s.segments.stale == "full_forward" && s.shard.max_rank_bytes > 0) {
    return fmt::format(
        "segments.stale: found full_forward while shard.max_rank_bytes is {}: a pass over the whole graph needs it on "
        "one rank; set segments.stale to scores or pools, or shard.max_rank_bytes to 0",
        s.shard.max_rank_bytes);
  }
  return "";
}

std::string find_averaging_conflict(const Settings& s) {
  const auto& averaging = s.averaging;
  if (averaging.type != "swa") return "";
  const auto before = static_cast<int64_t>(averaging.start * static_cast<double>(s.trainer.steps));
  if (averaging.every_steps <= s.trainer.steps - before) return "";
  return fmt::format(
      "averaging.every_steps: found {}, expected at most {}, the steps that are left of trainer.steps ({}) after "
      "averaging.start ({}): else no step would count",
      averaging.every_steps, s.trainer.steps - before, s.trainer.steps, averaging.start);
}

std::string find_program_conflict(const Settings& s) {
  const bool fasttext = s.model.node_types.vectors == "fasttext";
  if (s.data.representation != "ast") {
    if (s.data.format != "programs") {
      return fmt::format(
          "data.representation: found {} while data.format is {}: only tensor programs have other graphs than those of "
          "their files; set it to ast",
          s.data.representation, s.data.format);
    }
    if (fasttext) {
      return fmt::format(
          "model.node_types.vectors: found fasttext while data.representation is {}: its walks go through syntax "
          "trees; "
          "set it to learned",
          s.data.representation);
    }
  }
  if (s.data.format != "programs") {
    if (s.model.type == "tpgnn") {
      return fmt::format(
          "model.type: found tpgnn while data.format is {}: its pooling ranks the nodes of each candidate's own graph, "
          "which only programs have; choose another type",
          s.data.format);
    }
    if (fasttext) {
      return fmt::format(
          "model.node_types.vectors: found fasttext while data.format is {}: only the node types of programs have "
          "names "
          "to learn from; set it to learned",
          s.data.format);
    }
  }
  if (!s.data.node_type_vectors.empty() && !fasttext) {
    return fmt::format(
        "data.node_type_vectors: found {} while model.node_types.vectors is {}: nothing would read it; set the latter "
        "to "
        "fasttext",
        s.data.node_type_vectors, s.model.node_types.vectors);
  }
  return "";
}

std::string find_model_conflict(const Settings& s) {
  const auto& m = s.model;
  if ((m.type == "stacked") != !m.convolutions.empty()) {
    return m.type == "stacked" ? "model.convolutions: found none while model.type is stacked: name its layers, e.g. "
                                 "[chebnet, sage]"
                               : fmt::format(
                                     "model.convolutions: found {} while model.type is {}: only a model of "
                                     "type stacked reads them; set model.type to stacked, or leave them out",
                                     m.convolutions.size(), m.type);
  }
  if (m.collection_embedding > 0 && s.data.format == "programs") {
    return fmt::format(
        "model.collection_embedding: found {} while data.format is programs: only TpuGraphs has collections; set it to "
        "0",
        m.collection_embedding);
  }
  if (m.layout_gate && m.encoder_layers == 0) {
    return "model.layout_gate: found true while model.encoder_layers is 0: it is a part of the encoder; set it to "
           "false, or the layers to 1";
  }
  if (s.trainer.member_folds && (m.members < 2 || m.members > 255 || m.type == "statement_cost")) {
    return fmt::format(
        "trainer.member_folds: found true while model.members is {} and model.type {}: expected 2 to 255 members, of "
        "any type but statement_cost",
        m.members, m.type);
  }
  const int64_t most = s.sampler.max_segment_nodes;
  if (most > 0 && s.trainer.member_folds) {
    return fmt::format(
        "trainer.member_folds: found true while sampler.max_segment_nodes is {}: members of segments are trained "
        "together; set one to false or the other to 0",
        most);
  }
  if (most > 0 && (m.candidate_attention || m.candidate_norm)) {
    return fmt::format(
        "model.{}: found true while sampler.max_segment_nodes is {}: candidates are compared as "
        "wholes, not by segments; set one to false or the other to 0",
        m.candidate_attention ? "candidate_attention" : "candidate_norm", most);
  }
  if (most > 0 && m.norm == "batch") {
    return fmt::format(
        "model.norm: found batch while sampler.max_segment_nodes is {}: one segment's statistics are not the graph's; "
        "set it to layer",
        most);
  }
  return "";
}

}  // namespace

std::string find_pruning_conflict(const Settings& s) {
  if (s.data.prune_hops < 0) return "";
  if (s.data.format != "layout") {
    return fmt::format(
        "data.prune_hops: found {} while data.format is {}: only layout graphs have configurable nodes to stay near; "
        "set it to -1",
        s.data.prune_hops, s.data.format);
  }
  if (s.shard.max_rank_bytes > 0) {
    return fmt::format(
        "data.prune_hops: found {} while shard.max_rank_bytes is {}: parts are counted from headers, which do not tell "
        "how many nodes pruning leaves; set one of them to its default",
        s.data.prune_hops, s.shard.max_rank_bytes);
  }
  return "";
}

std::string find_conflict(const Settings& s) {
  const bool ranks = s.loss.type == "listmle" || s.loss.type.starts_with("pairwise_");
  if (ranks && s.sampler.candidates_per_group == 1) {
    return fmt::format(
        "sampler.candidates_per_group: found {}, expected at least 2: loss.type {} compares candidates with each other",
        s.sampler.candidates_per_group, s.loss.type);
  }
  if (s.trainer.early_stop.patience > 0 && s.trainer.eval_every == 0) {
    return fmt::format(
        "trainer.early_stop.patience: found {} while trainer.eval_every is 0: without evaluations on the way no run "
        "stops "
        "early; set trainer.eval_every",
        s.trainer.early_stop.patience);
  }
  if (s.comm.backend == "nccl" && s.trainer.device == "cpu") {
    return "comm.backend: found nccl while trainer.device is cpu: NCCL reduces on GPUs only; set comm.backend to mpi";
  }
  if (const auto conflict = find_program_conflict(s); !conflict.empty()) return conflict;
  if (const auto conflict = find_model_conflict(s); !conflict.empty()) return conflict;
  if (const auto conflict = find_pruning_conflict(s); !conflict.empty()) return conflict;
  if (const auto conflict = find_averaging_conflict(s); !conflict.empty()) return conflict;
  return find_segment_conflict(s);
}

}  // namespace foretime::configs
