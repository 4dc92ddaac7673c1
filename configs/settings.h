#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/fields.h"

/// Every setting of a training run, as plain typed structs. Below each struct stands what its members mean, with unit
/// and bounds; loading, overrides, printing, completion and the reference page all come from there. A visitor is called
/// in the order of declaration: visit(name, member, meaning[, bound]), and visit.section(name, struct, meaning).
#define FIELD(member, ...) visit(#member, s.member, __VA_ARGS__)
#define SECTION(member, meaning) visit.section(#member, s.member, meaning)
namespace foretime::configs {

FORETIME_CHOICE(DataFormat, layout, tile, programs);
FORETIME_CHOICE(Representation, ast, loops, curve);
FORETIME_CHOICE(Duplicates, keep, first, mean);
FORETIME_CHOICE(FeatureTransform, none, minmax, zscore);
FORETIME_CHOICE(LayoutFeatures, scaled, learned_scale, embedding);
FORETIME_CHOICE(NodeTypeVectors, learned, fasttext);
/// Convolutions are model types and layers of a stacked model. Each is a word here and a function of this name in a
/// file of models/convolutions/; the registry there is made from this list.
#define FORETIME_CONVOLUTIONS gcn, sage, gin, gat, chebnet, transformer
FORETIME_CHOICE(ConvolutionType, FORETIME_CONVOLUTIONS);
FORETIME_CHOICE(ModelType, mlp, FORETIME_CONVOLUTIONS, stacked, residual_gcn, preactivated_gcn, tpgnn, statement_cost);
FORETIME_CHOICE(Directions, apart, together);
FORETIME_CHOICE(Aggregation, mean, max, sum);
FORETIME_CHOICE(LargestEigenvalue, two, estimated);
FORETIME_CHOICE(StatementInput, loops, accesses, statement, block);
FORETIME_CHOICE(ReadoutPart, mean, sum, max, normalized_sum, configurable_mean, configurable_sum, configurable_max,
                configurable_normalized_sum, decision_mean, decision_sum, decision_normalized_sum);
FORETIME_CHOICE(Activation, relu, leaky_relu);
FORETIME_CHOICE(Norm, none, layer, graph, batch);
FORETIME_CHOICE(StateSharing, states, invariant, none);
FORETIME_CHOICE(TileJoin, early, late);
FORETIME_CHOICE(HeadBias, none, all);
FORETIME_CHOICE(LossType, listmle, pairwise_hinge, pairwise_logistic, mse, huber, l1);
FORETIME_CHOICE(LossTarget, runtime, log_runtime, log_runtime_per_flop);
FORETIME_CHOICE(OptimizerType, adam, adamw);
FORETIME_CHOICE(ClipScope, global, tensor);
FORETIME_CHOICE(Schedule, constant, cosine);
FORETIME_CHOICE(AveragingType, none, ema, swa);
FORETIME_CHOICE(SegmentMethod, contiguous, metis);
FORETIME_CHOICE(Stale, scores, pools, full_forward, none);
FORETIME_CHOICE(Device, auto_, cpu, cuda);
FORETIME_CHOICE(Precision, float32, bfloat16);
FORETIME_CHOICE(Baseline, mean, mlp, gcn, sage, residual_gcn, tpgnn, statement_cost);
FORETIME_CHOICE(Goal, maximize, minimize);
FORETIME_CHOICE(Backend, auto_, single, mpi, nccl);

struct HardwareSettings {
  int64_t vector_bytes = 64;
  int64_t vector_registers = 32;
  int64_t cores = 1;
  int64_t l1_bytes = 49152;
  int64_t l2_bytes = 1048576;
  int64_t l3_bytes = 33554432;
};

inline void visit_fields(HardwareSettings& s, auto&& visit) {
  FIELD(vector_bytes, "bytes of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512", at_least(4));
  FIELD(vector_registers, "vector registers: 16 up to AVX2, 32 for AVX-512 and NEON", at_least(1));
  FIELD(cores, "cores that the parallel loops of a program had", at_least(1));
  FIELD(l1_bytes, "first-level data cache of a core, bytes", at_least(1));
  FIELD(l2_bytes, "second-level cache of a core, bytes", at_least(1));
  FIELD(l3_bytes, "third-level cache, shared by the cores, bytes", at_least(1));
}

struct DataSettings {
  DataFormat format = DataFormat::layout;
  Representation representation = Representation::ast;
  std::string root = ".";
  std::vector<std::string> train, valid, test;
  std::string eval_indices, node_type_vectors;
  double holdout = 0.0;
  int64_t max_eval_candidates = 1000;
  double train_fraction = 1.0;
  Duplicates duplicates = Duplicates::keep;
  int64_t prune_hops = -1;
  int64_t read_threads = 2;
  std::vector<std::string> allowed_roots;
  HardwareSettings hardware;
};

inline void visit_fields(DataSettings& s, auto&& visit) {
  FIELD(format, "how the program graphs are stored");
  FIELD(representation,
        "programs: what a tensor program's graph is: its syntax tree, its loops and accesses, or one node with its "
        "context relation features");
  FIELD(root, "folder where relative patterns start; relative itself to the working folder", not_empty());
  FIELD(train, "groups to train on: files, folders, globs or packed collections");
  FIELD(valid, "groups that choose the best checkpoint, named as in train");
  FIELD(test, "groups that are reported once, at the end, named as in train");
  FIELD(eval_indices, "JSON file with TpuGraphs' official validation candidates; empty: all candidates");
  FIELD(node_type_vectors,
        "model.node_types.vectors fasttext: file of vectors in FastText's text form (.vec); empty: they are trained on "
        "the training groups when training starts");
  FIELD(holdout, "fraction of each training group's distinct configurations that is kept for evaluation",
        from_to_below(0, 1));
  FIELD(max_eval_candidates,
        "largest number of candidates evaluated in a group; 0: all; groups without run times are ranked as a whole",
        at_least(0));
  FIELD(train_fraction, "fraction of the remaining training candidates that is used", above_up_to(0, 1));
  FIELD(duplicates,
        "training candidates of one configuration: keep all, the first alone, or the first with the mean run time of "
        "all; what is evaluated stays as it is");
  FIELD(prune_hops,
        "layout: nodes that are more edges away from every configurable node, in whatever direction, are cut away in "
        "training, evaluation and ranking; -1: none",
        at_least(-1));
  FIELD(read_threads,
        "threads of each rank that open groups before they are drawn; 0: each is opened when it is needed",
        at_least(0));
  FIELD(allowed_roots,
        "folders, relative to the working folder, outside of which no data file is read, symbolic links resolved; "
        "empty: anywhere");
  SECTION(hardware, "The machine that tensor programs were measured on, where columns of loop graphs depend on it.");
}

struct FeatureSettings {
  FeatureTransform transform = FeatureTransform::minmax;
  bool log = false;
  LayoutFeatures layout = LayoutFeatures::scaled;
  double layout_scale = 100.0;
  int64_t layout_embedding = 4;
  std::vector<std::string> columns;
};

inline void visit_fields(FeatureSettings& s, auto&& visit) {
  FIELD(transform, "scaling of each column, fitted on the training graphs");
  FIELD(log, "take sign(x) log(1 + |x|) before the scaling");
  FIELD(layout,
        "what a layout's 18 numbers become: scaled numbers, numbers times learned factors, or learned vectors of each");
  FIELD(layout_scale,
        "layout scaled: factor on layout features, as in the published baseline; learned_scale: the factors at first",
        above(0));
  FIELD(layout_embedding, "layout embedding: width of the vector of each of the 18 numbers", at_least(1));
  FIELD(
      columns,
      "columns of node features that the model reads, by name, or by the beginning of several names and *; empty: all");
}

struct NodeTypeSettings {
  NodeTypeVectors vectors = NodeTypeVectors::learned;
  int64_t walks = 4000;
  int64_t walk_length = 24;
  int64_t walk_epochs = 5;
  int64_t walk_window = 5;
  double walk_rate = 0.05;
  bool subwords = true;
};

inline void visit_fields(NodeTypeSettings& s, auto&& visit) {
  FIELD(vectors,
        "learned with the model; or fasttext (programs): trained beforehand on walks through syntax trees, or read "
        "(data.node_type_vectors), then fixed and kept in the checkpoint");
  FIELD(walks, "fasttext: walks through the syntax trees of the training groups, of all together", at_least(1));
  FIELD(walk_length, "fasttext: largest number of nodes of a walk", between(2, 1000));
  FIELD(walk_epochs, "fasttext: passes over the walks", between(1, 10000));
  FIELD(walk_window, "fasttext: largest distance of a node type from those that it predicts", between(1, 1000));
  FIELD(walk_rate, "fasttext: step size at the beginning", above(0));
  FIELD(subwords, "fasttext: types whose names share parts share parts of their vectors");
}

struct SageSettings {
  Aggregation aggregation = Aggregation::mean;
  Directions directions = Directions::apart;
};

constexpr const char* kDirectionsText =
    "messages of producers and of consumers apart, with weights of their own, or together";

inline void visit_fields(SageSettings& s, auto&& visit) {
  FIELD(aggregation, "what becomes of the neighbours' states");
  FIELD(directions, kDirectionsText);
}

struct GinSettings {
  Directions directions = Directions::apart;
};

inline void visit_fields(GinSettings& s, auto&& visit) { FIELD(directions, kDirectionsText); }

/// Of gat and of transformer.
struct AttentionSettings {
  int64_t heads = 4;
  Directions directions = Directions::apart;
};

inline void visit_fields(AttentionSettings& s, auto&& visit) {
  FIELD(heads, "attention heads, which divide model.hidden", at_least(1));
  FIELD(directions, kDirectionsText);
}

struct ChebnetSettings {
  int64_t order = 3;
  LargestEigenvalue lambda_max = LargestEigenvalue::two;
};

inline void visit_fields(ChebnetSettings& s, auto&& visit) {
  FIELD(order, "number of Chebyshev polynomials; a layer of order K passes messages K - 1 steps", at_least(1));
  FIELD(lambda_max, "largest eigenvalue of the Laplacian: its bound 2, or estimated for each graph by power iteration");
}

struct StackedSettings {
  std::vector<ConvolutionType> convolutions;
};

inline void visit_fields(StackedSettings& s, auto&& visit) {
  FIELD(convolutions, "the message-passing layers, by type, instead of model.layers");
}

struct TpgnnSettings {
  double pool_ratio = 0.8;
};

inline void visit_fields(TpgnnSettings& s, auto&& visit) {
  FIELD(pool_ratio, "part of each graph's nodes that stays after each convolution's pooling", above_up_to(0, 1));
}

struct StatementCostSettings {
  std::vector<StatementInput> inputs = {StatementInput::loops, StatementInput::accesses, StatementInput::statement};
  bool context = false;
  int64_t loop_hidden = 64;
  double clip = 3.0;
};

inline void visit_fields(StatementCostSettings& s, auto&& visit) {
  FIELD(inputs,
        "what the cost of a statement depends on: its loops, its accesses, the statement itself, or of the latter the "
        "innermost block alone");
  FIELD(context, "the cost of a statement also depends on the program's other statements");
  FIELD(loop_hidden, "width of the dense stack over loops", at_least(1));
  FIELD(clip, "scaled columns are cut at so many deviations; 0: not at all", at_least(0));
}

struct ModelSettings {
  ModelType type = ModelType::residual_gcn;
  int64_t hidden = 32;
  int64_t layers = 2;
  int64_t node_type_embedding = 32;
  int64_t collection_embedding = 0;
  int64_t encoder_layers = 2;
  int64_t encoder_hidden = 0;
  bool layout_gate = false;
  int64_t head_layers = 2;
  std::vector<ReadoutPart> readout = {ReadoutPart::mean, ReadoutPart::normalized_sum,
                                      ReadoutPart::configurable_normalized_sum};
  Activation activation = Activation::leaky_relu;
  double leaky_slope = 0.2;
  double dropout = 0.0;
  double edge_dropout = 0.0;
  bool residual = true;
  Norm norm = Norm::none;
  StateSharing sharing = StateSharing::states;
  bool l2_normalize = false;
  bool candidate_norm = false;
  bool candidate_attention = false;
  TileJoin tile_join = TileJoin::early;
  int64_t ensemble_size = 1;
  HeadBias head_bias = HeadBias::none;
  StackedSettings stacked;
  SageSettings sage;
  GinSettings gin;
  AttentionSettings gat;
  ChebnetSettings chebnet;
  AttentionSettings transformer;
  TpgnnSettings tpgnn;
  StatementCostSettings statement_cost;
  NodeTypeSettings node_types;
  FeatureSettings features;
};

inline void visit_fields(ModelSettings& s, auto&& visit) {
  FIELD(type, "model that scores the candidates");
  FIELD(hidden, "width of the hidden states", at_least(1));
  FIELD(layers, "message-passing layers", at_least(0));
  FIELD(node_type_embedding, "width of the vector of an opcode or node type", at_least(1));
  FIELD(collection_embedding,
        "width of the learned vector of a graph's TpuGraphs collection, which its files' folders name; 0: none",
        at_least(0));
  FIELD(encoder_layers, "dense layers before propagation (prenet); 0: inputs are the first states as they are",
        at_least(0));
  FIELD(encoder_hidden, "width of these layers but the last; 0: model.hidden", at_least(0));
  FIELD(layout_gate,
        "layout: a node's layout also adds a vector of its own to the state, scaled by a gate that the node's other "
        "columns decide; of graphs that no training saw, layouts are ranked better");
  FIELD(
      head_layers,
      "dense layers after the readout (postnet), the last one to a scalar; tpgnn: each half as wide as the one before",
      at_least(1));
  FIELD(readout,
        "how final states become one vector; several are concatenated. configurable_: over configurable nodes; "
        "decision_: over these, those whose layouts are always chosen together counting as one",
        not_empty());
  FIELD(activation, "activation between dense layers and after convolutions");
  FIELD(leaky_slope, "leaky_relu: slope for negative inputs", at_least(0));
  FIELD(dropout, "probability that an activation is dropped in training", from_to_below(0, 1));
  FIELD(edge_dropout, "probability that a message is left out in training; sums of the others are scaled up",
        from_to_below(0, 1));
  FIELD(residual, "each layer gives x + conv(x), as residual_gcn and preactivated_gcn always do");
  FIELD(norm,
        "normalisation after each convolution: layer (each state alone), batch (each column over the batch; running "
        "means in evaluation) or graph (over a candidate's nodes, so that candidates share no states)");
  FIELD(sharing,
        "layout: which node states are computed once: equal ones (states), those that no layout reaches (invariant), "
        "or none; scores are the same");
  FIELD(l2_normalize, "scale each state to unit length after each layer");
  FIELD(candidate_norm,
        "the readout's columns are standardised over the candidates of the group that are ranked together");
  FIELD(candidate_attention,
        "the readout gives, beside each column, its softmax over the candidates of the group: scores then depend on "
        "which candidates are ranked together");
  FIELD(tile_join, "tile: where the candidate's features join the nodes' (before or after propagation)");
  FIELD(ensemble_size, "models that are trained apart on the same batches; the score is their mean", at_least(1));
  FIELD(head_bias, "whether the head's dense layers have a bias");
  SECTION(stacked, "Layers of several types, which take the settings of their own types' sections.");
  SECTION(sage, "GraphSAGE.");
  SECTION(gin, "Graph isomorphism network.");
  SECTION(gat, "Graph attention network.");
  SECTION(chebnet, "Chebyshev spectral convolutions.");
  SECTION(transformer, "Attention to neighbours by queries and keys.");
  SECTION(tpgnn, "Graph network with pooling, for syntax trees.");
  SECTION(statement_cost, "The run time as the sum of the costs of statements.");
  SECTION(node_types, "Where the vectors of node types come from.");
  SECTION(features, "How raw inputs become the numbers that a model sees.");
}

struct LossSettings {
  LossType type = LossType::listmle;
  double temperature = 1.0;
  double margin = 0.1;
  double delta = 1.0;
  double mse_weight = 0.0;
  double huber_weight = 0.0;
  LossTarget target = LossTarget::runtime;
  double target_scale = 1.0;
  bool standardize_target = false;
};

inline void visit_fields(LossSettings& s, auto&& visit) {
  FIELD(type, "loss of one group, averaged over the groups of a batch");
  FIELD(temperature, "listmle: scores are divided by it", above(0));
  FIELD(margin, "pairwise_hinge: difference of scores that costs nothing", at_least(0));
  FIELD(delta, "huber: error where the loss turns from quadratic to linear", above(0));
  FIELD(mse_weight, "w of (loss + w mse) / (1 + w)", at_least(0));
  FIELD(huber_weight, "w of (loss + w huber) / (1 + w): keeps the scores of a ranking loss near the targets",
        at_least(0));
  FIELD(target, "what regression losses compare scores with");
  FIELD(target_scale, "factor on runtime targets", above(0));
  FIELD(standardize_target, "subtract the training mean and divide by the training deviation");
}

struct OptimizerSettings {
  OptimizerType type = OptimizerType::adam;
  double learning_rate = 1e-3;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip_norm = 1.0;
  ClipScope clip = ClipScope::global;
  Schedule schedule = Schedule::constant;
  int64_t warmup_steps = 0;
  double final_ratio = 0.0;
  int64_t accumulation = 1;
};

inline void visit_fields(OptimizerSettings& s, auto&& visit) {
  FIELD(type, "adamw decouples the weight decay from the gradient");
  FIELD(learning_rate, "step size after the warm-up", above(0));
  FIELD(weight_decay, "weight decay", at_least(0));
  FIELD(beta1, "decay of the gradient's running mean", from_to_below(0, 1));
  FIELD(beta2, "decay of the squared gradient's running mean", from_to_below(0, 1));
  FIELD(epsilon, "added to the denominator of a step", above(0));
  FIELD(clip_norm, "largest gradient norm; 0 turns clipping off", at_least(0));
  FIELD(clip, "the norm that is clipped: of all gradients together, or of each tensor's");
  FIELD(schedule, "learning rate after the warm-up");
  FIELD(warmup_steps, "steps over which the learning rate rises linearly from 0", at_least(0));
  FIELD(final_ratio, "cosine: learning rate at the end, relative to learning_rate", between(0, 1));
  FIELD(accumulation, "batches summed before one optimiser step", at_least(1));
}

struct AveragingSettings {
  AveragingType type = AveragingType::none;
  double decay = 0.999;
  double start = 0.0;
  int64_t every_steps = 1;
};

inline void visit_fields(AveragingSettings& s, auto&& visit) {
  FIELD(type,
        "ema: exponential moving average over the steps, corrected for its beginning; swa: mean of the weights of some "
        "steps (stochastic weight averaging)");
  FIELD(decay, "ema: weight of the past in each step", from_to_below(0, 1));
  FIELD(start, "fraction of the steps that comes before the first one that counts; swa was published with 0.75",
        from_to_below(0, 1));
  FIELD(every_steps, "swa: optimiser steps between those that count", at_least(1));
}

struct SamplerSettings {
  int64_t groups_per_batch = 4;
  int64_t candidates_per_group = 16;
  double fast_bias = 0.0;
  int64_t samples_per_group = 1;
  int64_t max_segment_nodes = 0;
};

inline void visit_fields(SamplerSettings& s, auto&& visit) {
  FIELD(groups_per_batch, "groups in a batch, over all ranks together", at_least(1));
  FIELD(candidates_per_group, "candidates drawn from each group of a batch; 0: all", at_least(0));
  FIELD(fast_bias, "0: candidates are drawn uniformly; above: with a bias to fast ones", at_least(0));
  FIELD(samples_per_group, "samples of one group in an epoch; 0: enough to see each candidate about once", at_least(0));
  FIELD(max_segment_nodes, "largest number of nodes of a training segment; 0: whole graphs", at_least(0));
}

struct SegmentSettings {
  SegmentMethod method = SegmentMethod::contiguous;
  Stale stale = Stale::scores;
  double keep_probability = 0.5;
  int64_t refresh_interval = 10;
  int64_t history_bytes = 1073741824;
  int64_t finetune_steps = 0;
};

inline void visit_fields(SegmentSettings& s, auto&& visit) {
  FIELD(method, "how computations of more than sampler.max_segment_nodes nodes are cut");
  FIELD(stale,
        "what stands for the segments of a graph that are not trained: their past scores, their past pools, a forward "
        "pass over the whole graph without gradient, or nothing");
  FIELD(keep_probability,
        "probability that a segment that is not trained counts in a sample; the trained one makes up for the others",
        between(0, 1));
  FIELD(refresh_interval,
        "optimiser steps between exchanges of past values of graphs whose samples lie in several batch slots",
        at_least(1));
  FIELD(history_bytes, "largest memory of past values on a rank; beyond it the oldest are forgotten", at_least(1));
  FIELD(finetune_steps, "optimiser steps at the end that train the head alone, on all segments of a graph",
        at_least(0));
}

struct EarlyStopSettings {
  int64_t patience = 0;
  double min_delta = 0.0;
};

inline void visit_fields(EarlyStopSettings& s, auto&& visit) {
  FIELD(patience, "evaluations without improvement that end the run; 0: never", at_least(0));
  FIELD(min_delta, "smallest change of the metric that counts as improvement", at_least(0));
}

struct TrainerSettings {
  int64_t steps = 200;
  int64_t epochs = 0;
  int64_t eval_every = 0;
  int64_t log_every = 10;
  int64_t threads = 0;
  Device device = Device::auto_;
  Precision precision = Precision::float32;
  bool deterministic = false;
  uint64_t seed = 1;
  std::vector<Baseline> baselines;
  std::string metric = "valid/kendall_tau";
  Goal metric_goal = Goal::maximize;
  EarlyStopSettings early_stop;
  int64_t tie_threshold_candidates = 0;
  bool cross_fitting = false;
  int64_t eval_states = 2000000;
};

inline void visit_fields(TrainerSettings& s, auto&& visit) {
  FIELD(steps, "largest number of optimiser steps", at_least(1));
  FIELD(epochs, "largest number of epochs; 0: no limit", at_least(0));
  FIELD(eval_every, "optimiser steps between evaluations; 0: at the end only", at_least(0));
  FIELD(log_every, "optimiser steps between log lines", at_least(1));
  FIELD(threads, "threads of each rank; 0: cores / ranks on this host", at_least(0));
  FIELD(device, "auto: a GPU where there is one");
  FIELD(precision,
        "of matrix products in training: bfloat16 keeps weights, sums over neighbours, head and loss in float32, and "
        "is slower on most CPUs; evaluation is float32 always");
  FIELD(deterministic,
        "only algorithms that repeat themselves bit by bit, also on a GPU; an operation that has none is an error");
  FIELD(seed, "seed of the weights and of every draw");
  FIELD(baselines, "trained and evaluated beside the model: the mean, or a model type");
  FIELD(metric, "metric that chooses the best checkpoint and drives early stopping", not_empty());
  FIELD(metric_goal, "direction in which the metric is better");
  SECTION(early_stop, "When a run that no longer improves is ended.");
  FIELD(tie_threshold_candidates,
        "after training, so many training candidates of each group show which differences of scores are noise: scores "
        "of that graph then fall into levels, and Kendall's tau-b counts candidates of a level as tied; 0: none",
        at_least(0));
  FIELD(cross_fitting,
        "each of the models of model.ensemble_size learns from all but its own share of each group's configurations, "
        "and tie thresholds are found from scores of candidates by the model that has not seen them");
  FIELD(eval_states, "node states evaluated at once; bounds the memory of evaluation", at_least(1));
}

struct CheckpointSettings {
  int64_t every_steps = 0;
  int64_t keep_last = 2;
  bool keep_best = true;
  std::string resume = "auto";
};

inline void visit_fields(CheckpointSettings& s, auto&& visit) {
  FIELD(every_steps, "optimiser steps between checkpoints; 0: at the end and on SIGTERM only", at_least(0));
  FIELD(keep_last, "number of most recent checkpoints that are kept", at_least(1));
  FIELD(keep_best, "also keep the checkpoint with the best metric");
  FIELD(resume, "auto: from the run's last whole checkpoint; never; or the path of a checkpoint", not_empty());
}

struct CommSettings {
  Backend backend = Backend::auto_;
  int64_t bucket_bytes = 1 << 20;
  Precision gradient_dtype = Precision::float32;
  double timeout_seconds = 600.0;
};

inline void visit_fields(CommSettings& s, auto&& visit) {
  FIELD(backend, "auto: single for one rank, nccl where every rank has a GPU, else mpi");
  FIELD(bucket_bytes, "bytes of gradients reduced in one call", at_least(1));
  FIELD(gradient_dtype,
        "how gradients travel between ranks: bfloat16 halves the bytes and rounds each rank's gradient and their sum, "
        "which is made in float32");
  FIELD(timeout_seconds, "seconds after which a stuck collective ends the run and names the late ranks", above(0));
}

struct ShardSettings {
  int64_t max_rank_bytes = 0;
  double mix_slack = 0.1;
};

inline void visit_fields(ShardSettings& s, auto&& visit) {
  FIELD(max_rank_bytes,
        "layout graphs that are estimated to need more memory are cut into parts, which several ranks may hold; 0: no "
        "limit",
        at_least(0));
  FIELD(mix_slack,
        "how much slower steps may become, at the most, so that batches mix graphs of unlike cost; 0: graphs of like "
        "cost always come together",
        at_least(0));
}

struct RunSettings {
  std::string directory = "runs/default";
  bool overwrite = false;
};

inline void visit_fields(RunSettings& s, auto&& visit) {
  FIELD(directory, "run directory: checkpoints, metrics, rankings and log", not_empty());
  FIELD(overwrite, "begin anew: delete the run that the directory holds");
}

struct Settings {
  DataSettings data;
  ModelSettings model;
  LossSettings loss;
  OptimizerSettings optimizer;
  AveragingSettings averaging;
  SamplerSettings sampler;
  SegmentSettings segments;
  TrainerSettings trainer;
  CheckpointSettings checkpoint;
  CommSettings comm;
  ShardSettings shard;
  RunSettings run;
};

inline void visit_fields(Settings& s, auto&& visit) {
  SECTION(data, "Which groups of program graphs are read, and how they are split.");
  SECTION(model, "The graph neural network, or a baseline in its place.");
  SECTION(loss, "What training minimises.");
  SECTION(optimizer, "How weights follow the gradient.");
  SECTION(
      averaging,
      "A mean of the weights over many steps, which is evaluated, ranks and is exported in place of the last ones.");
  SECTION(sampler, "What a batch holds.");
  SECTION(segments, "How large graphs are trained on, one segment at a time.");
  SECTION(trainer, "How long a run takes, on what, and how it is judged.");
  SECTION(checkpoint, "When a run is saved, and how it continues.");
  SECTION(comm, "How ranks talk to each other.");
  SECTION(shard, "How the groups are divided among the ranks.");
  SECTION(run, "Where a run leaves its files.");
}

}  // namespace foretime::configs

#undef FIELD
#undef SECTION
