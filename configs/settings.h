#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Every setting of a training run, as plain typed structs. `configs/fields.h` names each field once, with its meaning,
/// unit and bounds; loading, overrides, printing and the reference page all come from there.
namespace foretime::configs {

/// The machine that tensor programs were measured on, where columns of loop graphs depend on it.
struct HardwareSettings {
  int64_t vector_bytes = 64;      // of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512
  int64_t vector_registers = 32;  // 16 up to AVX2
  int64_t cores = 1;              // that a program's parallel loops have
  int64_t l1_bytes = 49152;       // data caches of a core
  int64_t l2_bytes = 1048576;
  int64_t l3_bytes = 33554432;  // shared by the cores
};

/// Which groups of program graphs are read, and how they are split.
struct DataSettings {
  std::string format = "layout";       // layout | tile | programs
  std::string representation = "ast";  // ast | loops | curve: how tensor programs become graphs
  std::string root = ".";              // relative patterns below start here; relative itself to the working folder
  std::vector<std::string> train;      // files, folders, globs or packed collections
  std::vector<std::string> valid;      // as train; chooses the best checkpoint
  std::vector<std::string> test;       // as train; reported once, at the end
  std::string eval_indices;            // TpuGraphs' official validation candidates (JSON), empty: all candidates
  std::string node_type_vectors;       // model.node_types.vectors fasttext: a .vec file; empty: trained at the start
  double holdout = 0.0;                // fraction of each training group's distinct configurations kept for evaluation
  int64_t max_eval_candidates = 1000;  // per group; 0: all
  double train_fraction = 1.0;         // fraction of the remaining training candidates that is used
  std::string duplicates = "keep";     // keep | first | mean: training candidates of one configuration
  int64_t prune_hops = -1;             // layout: nodes farther from all configurable ones are cut away; -1: none
  int64_t read_threads = 2;            // of each rank, which open groups before they are drawn; 0: none
  std::vector<std::string> confine;    // folders that hold every file that is read; empty: anywhere
  HardwareSettings hardware;
};

/// How raw inputs become the numbers that a model sees.
struct FeatureSettings {
  std::string transform = "minmax";  // none | minmax | zscore, per column, over the training graphs
  bool log = false;                  // sign(x) log(1 + |x|) first
  std::string layout = "scaled";     // scaled | learned_scale | embedding: of the 18 numbers of a layout
  double layout_scale = 100.0;       // scaled: factor on layout features, as in the published baseline
  int64_t layout_embedding = 4;      // embedding: width of the vector of each of a layout's 18 numbers
  std::vector<std::string> columns;  // of node features that the model reads, by name; empty: all
};

/// Where the vectors of node types come from (docs/explanations/tensor-programs.md).
struct NodeTypeSettings {
  std::string vectors = "learned";  // learned | fasttext
  int64_t walks = 4000;             // fasttext: through the syntax trees of the training groups, in all
  int64_t walk_length = 24;
  int64_t walk_epochs = 5;
  int64_t walk_window = 5;
  double walk_rate = 0.05;  // step size at the beginning
  bool subwords = true;
};

struct ModelSettings {
  // mlp | gcn | sage | gin | gat | chebnet | transformer | stacked | residual_gcn | preactivated_gcn | tpgnn |
  // statement_cost
  std::string type = "residual_gcn";
  int64_t hidden = 32;
  int64_t layers = 2;                     // message-passing layers
  std::vector<std::string> convolutions;  // stacked: its layers, by type
  std::string directions = "apart";       // sage, gin, gat, transformer: producers and consumers apart | together
  std::string aggregation = "mean";       // sage: mean | max | sum
  int64_t heads = 4;                      // gat, transformer
  int64_t cheb_order = 3;                 // chebnet: polynomials of degree below it
  std::string cheb_lambda = "two";        // chebnet: two | estimated, the Laplacian's largest eigenvalue
  int64_t node_type_embedding = 32;       // width of an opcode's or node type's vector
  int64_t collection_embedding = 0;       // width of a vector of the graph's collection (TpuGraphs); 0: none
  int64_t encoder_layers = 2;             // dense layers before propagation (prenet)
  int64_t encoder_hidden = 0;             // width of the dense layers before the last; 0: hidden
  bool layout_gate = false;               // layout: what a layout adds to a state is scaled by a gate of the node
  int64_t head_layers = 2;                // dense layers after the readout (postnet), the last one to a scalar
  std::vector<std::string> readout = {"mean", "normalized_sum", "configurable_normalized_sum"};
  std::string activation = "leaky_relu";  // relu | leaky_relu
  double leaky_slope = 0.2;
  double dropout = 0.0;
  double edge_dropout = 0.0;         // probability that a message is left out in training
  bool residual = true;              // x + conv(x); residual_gcn always
  std::string norm = "none";         // none | layer | graph | batch, after each convolution
  std::string sharing = "states";    // states | invariant | none: which node states of a layout group are one
  bool l2_normalize = false;         // normalise each state after each layer (EarlyJoinSAGE)
  bool candidate_norm = false;       // the readout's columns are standardised over the candidates of a group
  bool candidate_attention = false;  // the readout compares the candidates of a group
  std::string tile_join = "early";   // early | late
  std::vector<std::string> statement_inputs = {"loops", "accesses", "statement"};  // statement_cost
  bool context = false;            // statement_cost: a statement's cost also depends on the program's other ones
  int64_t members = 1;             // models trained apart, whose mean is the score
  int64_t loop_hidden = 64;        // statement_cost: width of the stack over loops
  double clip = 3.0;               // statement_cost: columns are cut at so many deviations; 0: not
  std::string head_bias = "none";  // none | all: bias in the head
  double pool_ratio = 0.8;         // tpgnn: part of a graph's nodes that each pooling keeps
  NodeTypeSettings node_types;
  FeatureSettings features;
};

struct LossSettings {
  std::string type = "listmle";     // listmle | pairwise_hinge | pairwise_logistic | mse | huber | l1
  double temperature = 1.0;         // listmle: scores are divided by it
  double margin = 0.1;              // pairwise_hinge
  double delta = 1.0;               // huber
  double mse_weight = 0.0;          // (loss + w * mse) / (1 + w)
  double huber_weight = 0.0;        // likewise, of the Huber loss
  std::string target = "runtime";   // runtime | log_runtime | log_runtime_per_flop
  double target_scale = 1.0;        // runtime targets are multiplied by it
  bool standardize_target = false;  // subtract the training mean, divide by the training deviation
};

struct OptimizerSettings {
  std::string type = "adam";  // adam | adamw
  double learning_rate = 1e-3;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip_norm = 1.0;             // largest gradient norm; 0 turns clipping off
  std::string clip = "global";        // global | tensor: the norm of all gradients together, or of each tensor's
  std::string schedule = "constant";  // constant | cosine
  int64_t warmup_steps = 0;
  double final_ratio = 0.0;  // cosine: learning rate at the end, relative
  int64_t accumulation = 1;  // batches summed before one optimiser step
};

/// A mean of the weights over many steps, which is evaluated and kept in place of the last ones
/// (worker/weight_average.h).
struct AveragingSettings {
  std::string type = "none";  // none | ema | swa
  double decay = 0.999;       // ema: weight of the past in each step
  double start = 0.0;         // fraction of the steps that comes before the first one that counts
  int64_t every_steps = 1;    // swa: steps between those that count
};

struct SamplerSettings {
  int64_t groups_per_batch = 4;  // global, over all ranks; also the number of lanes (see coordinator/shard_plan.h)
  int64_t candidates_per_group = 16;
  double fast_bias = 0.0;         // 0: uniform; > 0: candidates are drawn with a bias to fast ones
  int64_t draws_per_group = 1;    // draws of one group in an epoch; 0: enough to see each candidate about once
  int64_t max_segment_nodes = 0;  // largest number of nodes of a training segment; 0: whole graphs
};

/// Training on one segment of a graph at a time, where sampler.max_segment_nodes cuts graphs
/// (docs/explanations/segments.md).
struct SegmentSettings {
  std::string method = "contiguous";   // contiguous | metis
  std::string stale = "scores";        // scores | pools | full_forward | none
  double keep_probability = 0.5;       // of each segment that is not trained, in each draw
  int64_t refresh_interval = 10;       // optimiser steps between exchanges of the history of graphs in several lanes
  int64_t history_bytes = 1073741824;  // of each rank
  int64_t finetune_steps = 0;          // at the end, on the head alone
};

struct EarlyStopSettings {
  int64_t patience = 0;  // evaluations without improvement; 0: never
  double min_delta = 0.0;
};

struct TrainerSettings {
  int64_t steps = 200;     // optimiser steps; the run ends at steps or epochs, whichever comes first
  int64_t epochs = 0;      // 0: no limit
  int64_t eval_every = 0;  // steps; 0: at the end only
  int64_t log_every = 10;
  int64_t threads = 0;                // of each rank; 0: cores / ranks on this host
  std::string device = "auto";        // auto | cpu | cuda
  std::string precision = "float32";  // float32 | bfloat16
  bool deterministic = false;
  uint64_t seed = 1;
  std::vector<std::string> baselines;        // trained and evaluated beside the model: mean, or a model type
  std::string metric = "valid/kendall_tau";  // chooses the best checkpoint, drives early stopping
  std::string metric_goal = "maximize";      // maximize | minimize
  EarlyStopSettings early_stop;
  int64_t score_levels = 0;       // training candidates of a group that show which differences are noise; 0: none
  bool member_folds = false;      // each of model.members leaves out a share of the candidates, which levels come from
  int64_t eval_states = 2000000;  // node states evaluated at once; bounds the memory of evaluation
};

struct CheckpointSettings {
  int64_t every_steps = 0;  // 0: at the end and on SIGTERM only
  int64_t keep_last = 2;
  bool keep_best = true;
  std::string resume = "auto";  // auto | never | path of a checkpoint
};

struct CommSettings {
  std::string backend = "auto";            // auto | single | mpi | nccl
  int64_t bucket_bytes = 1 << 20;          // gradients reduced in one call
  std::string gradient_dtype = "float32";  // float32 | bfloat16, between ranks
  double timeout_seconds = 600.0;          // a collective that takes longer ends the run and names the late ranks
};

/// How the groups are divided among the ranks (see coordinator/shard_plan.h).
struct ShardSettings {
  int64_t max_rank_bytes = 0;  // layout graphs that need more are cut into parts on several ranks; 0: no limit
  double mix_slack = 0.1;      // largest cost, relative, of mixing graphs of unlike cost in one batch
};

struct RunSettings {
  std::string directory = "runs/default";
  bool overwrite = false;  // begin anew: delete the run that the directory holds
};

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

}  // namespace foretime::configs
