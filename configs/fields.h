#pragma once

#include "configs/bounds.h"
#include "configs/settings.h"

/// Every setting is named here and nowhere else: its key, meaning, unit and bounds. Loading, overrides, printing and
/// the reference page follow from it. A visitor is called as
///   visit(name, member, meaning[, bound])        for a setting, and
///   visit.section(name, struct, meaning)         for a nested struct,
/// in the order of declaration.
namespace foretime::configs {

template <class Visit>
void visit_fields(HardwareSettings& s, Visit&& visit) {
  visit("vector_bytes", s.vector_bytes, "bytes of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512",
        at_least(4));
  visit("vector_registers", s.vector_registers, "vector registers: 16 up to AVX2, 32 for AVX-512 and NEON",
        at_least(1));
  visit("cores", s.cores, "cores that the parallel loops of a program had", at_least(1));
  visit("l1_bytes", s.l1_bytes, "first-level data cache of a core, bytes", at_least(1));
  visit("l2_bytes", s.l2_bytes, "second-level cache of a core, bytes", at_least(1));
  visit("l3_bytes", s.l3_bytes, "third-level cache, shared by the cores, bytes", at_least(1));
}

template <class Visit>
void visit_fields(DataSettings& s, Visit&& visit) {
  visit("format", s.format, "how the program graphs are stored", one_of({"layout", "tile", "programs"}));
  visit("representation", s.representation,
        "programs: what a tensor program's graph is: its syntax tree, its loops and accesses, or one node with its "
        "context "
        "relation features",
        one_of({"ast", "loops", "curve"}));
  visit("root", s.root, "folder where relative patterns start; relative itself to the working folder", not_empty());
  visit("train", s.train, "groups to train on: files, folders, globs or packed collections");
  visit("valid", s.valid, "groups that choose the best checkpoint, named as in train");
  visit("test", s.test, "groups that are reported once, at the end, named as in train");
  visit("eval_indices", s.eval_indices,
        "JSON file with TpuGraphs' official validation candidates; empty: all candidates");
  visit("node_type_vectors", s.node_type_vectors,
        "model.node_types.vectors fasttext: file of vectors in FastText's text form (.vec); empty: they are trained on "
        "the training groups when training starts");
  visit("holdout", s.holdout, "fraction of each training group's distinct configurations that is kept for evaluation",
        from_to_below(0, 1));
  visit("max_eval_candidates", s.max_eval_candidates,
        "largest number of candidates evaluated in a group; 0: all; groups without run times are ranked as a whole",
        at_least(0));
  visit("train_fraction", s.train_fraction, "fraction of the remaining training candidates that is used",
        above_up_to(0, 1));
  visit("duplicates", s.duplicates,
        "training candidates of one configuration: keep all, the first alone, or the first with the mean run time of "
        "all; what is evaluated stays as it is",
        one_of({"keep", "first", "mean"}));
  visit("prune_hops", s.prune_hops,
        "layout: nodes that are more edges away from every configurable node, in whatever direction, are cut away in "
        "training, evaluation and ranking; -1: none",
        at_least(-1));
  visit("read_threads", s.read_threads,
        "threads of each rank that open groups before they are drawn; 0: each is opened when it is needed",
        at_least(0));
  visit("confine", s.confine,
        "folders, relative to the working folder, outside of which no data file is read, symbolic links resolved; "
        "empty: anywhere");
  visit.section("hardware", s.hardware,
                "The machine that tensor programs were measured on, where columns of loop graphs depend on it.");
}

template <class Visit>
void visit_fields(FeatureSettings& s, Visit&& visit) {
  visit("transform", s.transform, "scaling of each column, fitted on the training graphs",
        one_of({"none", "minmax", "zscore"}));
  visit("log", s.log, "take sign(x) log(1 + |x|) before the scaling");
  visit("layout", s.layout,
        "what a layout's 18 numbers become: scaled numbers, numbers times learned factors, or learned vectors of each",
        one_of({"scaled", "learned_scale", "embedding"}));
  visit("layout_scale", s.layout_scale,
        "layout scaled: factor on layout features, as in the published baseline; learned_scale: the factors at first",
        above(0));
  visit("layout_embedding", s.layout_embedding, "layout embedding: width of the vector of each of the 18 numbers",
        at_least(1));
  visit(
      "columns", s.columns,
      "columns of node features that the model reads, by name, or by the beginning of several names and *; empty: all");
}

template <class Visit>
void visit_fields(NodeTypeSettings& s, Visit&& visit) {
  visit("vectors", s.vectors,
        "learned with the model; or fasttext (programs): trained beforehand on walks through syntax trees, or read "
        "(data.node_type_vectors), then fixed and kept in the checkpoint",
        one_of({"learned", "fasttext"}));
  visit("walks", s.walks, "fasttext: walks through the syntax trees of the training groups, of all together",
        at_least(1));
  visit("walk_length", s.walk_length, "fasttext: largest number of nodes of a walk", between(2, 1000));
  visit("walk_epochs", s.walk_epochs, "fasttext: passes over the walks", between(1, 10000));
  visit("walk_window", s.walk_window, "fasttext: largest distance of a node type from those that it predicts",
        between(1, 1000));
  visit("walk_rate", s.walk_rate, "fasttext: step size at the beginning", above(0));
  visit("subwords", s.subwords, "fasttext: types whose names share parts share parts of their vectors");
}

template <class Visit>
void visit_fields(ModelSettings& s, Visit&& visit) {
  visit("type", s.type, "model that scores the candidates",
        one_of({"mlp", "gcn", "sage", "gin", "gat", "chebnet", "transformer", "stacked", "residual_gcn",
                "preactivated_gcn", "tpgnn", "statement_cost"}));
  visit("hidden", s.hidden, "width of the hidden states", at_least(1));
  visit("layers", s.layers, "message-passing layers", at_least(0));
  visit("convolutions", s.convolutions, "stacked: the message-passing layers, by type, instead of model.layers",
        one_of({"gcn", "sage", "gin", "gat", "chebnet", "transformer"}));
  visit("directions", s.directions,
        "sage, gin, gat and transformer: messages of producers and of consumers apart, with weights of their own, or "
        "together",
        one_of({"apart", "together"}));
  visit("aggregation", s.aggregation, "sage: what becomes of the neighbours' states", one_of({"mean", "max", "sum"}));
  visit("heads", s.heads, "gat and transformer: attention heads, which divide model.hidden", at_least(1));
  visit("cheb_order", s.cheb_order,
        "chebnet: number of Chebyshev polynomials; a layer of order K passes messages K - 1 steps", at_least(1));
  visit("cheb_lambda", s.cheb_lambda,
        "chebnet: largest eigenvalue of the Laplacian: its bound 2, or estimated for each graph by power iteration",
        one_of({"two", "estimated"}));
  visit("node_type_embedding", s.node_type_embedding, "width of the vector of an opcode or node type", at_least(1));
  visit("collection_embedding", s.collection_embedding,
        "width of the learned vector of a graph's TpuGraphs collection, which its files' folders name; 0: none",
        at_least(0));
  visit("encoder_layers", s.encoder_layers,
        "dense layers before propagation (prenet); 0: inputs are the first states as they are", at_least(0));
  visit("encoder_hidden", s.encoder_hidden, "width of these layers but the last; 0: model.hidden", at_least(0));
  visit("layout_gate", s.layout_gate,
        "layout: a node's layout also adds a vector of its own to the state, scaled by a gate that the node's other "
        "columns decide; of graphs that no training saw, layouts are ranked better");
  visit(
      "head_layers", s.head_layers,
      "dense layers after the readout (postnet), the last one to a scalar; tpgnn: each half as wide as the one before",
      at_least(1));
  visit("readout", s.readout,
        "how final states become one vector; several are concatenated. configurable_: over configurable nodes; tied_: "
        "over "
        "these, those whose layouts are always chosen together counting as one",
        some_of({"mean", "sum", "max", "normalized_sum", "configurable_mean", "configurable_sum", "configurable_max",
                 "configurable_normalized_sum", "tied_mean", "tied_sum", "tied_normalized_sum"}));
  visit("activation", s.activation, "activation between dense layers and after convolutions",
        one_of({"relu", "leaky_relu"}));
  visit("leaky_slope", s.leaky_slope, "leaky_relu: slope for negative inputs", at_least(0));
  visit("dropout", s.dropout, "probability that an activation is dropped in training", from_to_below(0, 1));
  visit("edge_dropout", s.edge_dropout,
        "probability that a message is left out in training; sums of the others are scaled up", from_to_below(0, 1));
  visit("residual", s.residual, "each layer gives x + conv(x), as residual_gcn and preactivated_gcn always do");
  visit("norm", s.norm,
        "normalisation after each convolution: layer (each state alone), batch (each column over the batch; running "
        "means in evaluation) or graph (over a candidate's nodes, so that candidates share no states)",
        one_of({"none", "layer", "graph", "batch"}));
  visit("sharing", s.sharing,
        "layout: which node states are computed once: equal ones (states), those that no layout reaches (invariant), "
        "or none; scores are the same",
        one_of({"states", "invariant", "none"}));
  visit("l2_normalize", s.l2_normalize, "scale each state to unit length after each layer");
  visit("candidate_norm", s.candidate_norm,
        "the readout's columns are standardised over the candidates of the group that are ranked together");
  visit("candidate_attention", s.candidate_attention,
        "the readout gives, beside each column, its softmax over the candidates of the group: scores then depend on "
        "which candidates are ranked together");
  visit("tile_join", s.tile_join, "tile: where the candidate's features join the nodes' (before or after propagation)",
        one_of({"early", "late"}));
  visit("statement_inputs", s.statement_inputs,
        "statement_cost: what the cost of a statement depends on: its loops, its accesses, the statement itself, or of "
        "the latter the innermost block alone");
  visit("context", s.context, "statement_cost: the cost of a statement also depends on the program's other statements");
  visit("members", s.members, "models that are trained apart on the same batches; the score is their mean",
        at_least(1));
  visit("loop_hidden", s.loop_hidden, "statement_cost: width of the dense stack over loops", at_least(1));
  visit("clip", s.clip, "statement_cost: scaled columns are cut at so many deviations; 0: not at all", at_least(0));
  visit("head_bias", s.head_bias, "whether the head's dense layers have a bias", one_of({"none", "all"}));
  visit("pool_ratio", s.pool_ratio, "tpgnn: part of each graph's nodes that stays after each convolution's pooling",
        above_up_to(0, 1));
  visit.section("node_types", s.node_types, "Where the vectors of node types come from.");
  visit.section("features", s.features, "How raw inputs become the numbers that a model sees.");
}

template <class Visit>
void visit_fields(LossSettings& s, Visit&& visit) {
  visit("type", s.type, "loss of one group, averaged over the groups of a batch",
        one_of({"listmle", "pairwise_hinge", "pairwise_logistic", "mse", "huber", "l1"}));
  visit("temperature", s.temperature, "listmle: scores are divided by it", above(0));
  visit("margin", s.margin, "pairwise_hinge: difference of scores that costs nothing", at_least(0));
  visit("delta", s.delta, "huber: error where the loss turns from quadratic to linear", above(0));
  visit("mse_weight", s.mse_weight, "w of (loss + w mse) / (1 + w)", at_least(0));
  visit("huber_weight", s.huber_weight,
        "w of (loss + w huber) / (1 + w): keeps the scores of a ranking loss near the targets", at_least(0));
  visit("target", s.target, "what regression losses compare scores with",
        one_of({"runtime", "log_runtime", "log_runtime_per_flop"}));
  visit("target_scale", s.target_scale, "factor on runtime targets", above(0));
  visit("standardize_target", s.standardize_target, "subtract the training mean and divide by the training deviation");
}

template <class Visit>
void visit_fields(OptimizerSettings& s, Visit&& visit) {
  visit("type", s.type, "adamw decouples the weight decay from the gradient", one_of({"adam", "adamw"}));
  visit("learning_rate", s.learning_rate, "step size after the warm-up", above(0));
  visit("weight_decay", s.weight_decay, "weight decay", at_least(0));
  visit("beta1", s.beta1, "decay of the gradient's running mean", from_to_below(0, 1));
  visit("beta2", s.beta2, "decay of the squared gradient's running mean", from_to_below(0, 1));
  visit("epsilon", s.epsilon, "added to the denominator of a step", above(0));
  visit("clip_norm", s.clip_norm, "largest gradient norm; 0 turns clipping off", at_least(0));
  visit("clip", s.clip, "the norm that is clipped: of all gradients together, or of each tensor's",
        one_of({"global", "tensor"}));
  visit("schedule", s.schedule, "learning rate after the warm-up", one_of({"constant", "cosine"}));
  visit("warmup_steps", s.warmup_steps, "steps over which the learning rate rises linearly from 0", at_least(0));
  visit("final_ratio", s.final_ratio, "cosine: learning rate at the end, relative to learning_rate", between(0, 1));
  visit("accumulation", s.accumulation, "batches summed before one optimiser step", at_least(1));
}

template <class Visit>
void visit_fields(AveragingSettings& s, Visit&& visit) {
  visit("type", s.type,
        "ema: exponential moving average over the steps, corrected for its beginning; swa: mean of the weights of some "
        "steps (stochastic weight averaging)",
        one_of({"none", "ema", "swa"}));
  visit("decay", s.decay, "ema: weight of the past in each step", from_to_below(0, 1));
  visit("start", s.start,
        "fraction of the steps that comes before the first one that counts; swa was published with 0.75",
        from_to_below(0, 1));
  visit("every_steps", s.every_steps, "swa: optimiser steps between those that count", at_least(1));
}

template <class Visit>
void visit_fields(SamplerSettings& s, Visit&& visit) {
  visit("groups_per_batch", s.groups_per_batch, "groups in a batch, over all ranks together", at_least(1));
  visit("candidates_per_group", s.candidates_per_group, "candidates drawn from each group of a batch; 0: all",
        at_least(0));
  visit("fast_bias", s.fast_bias, "0: candidates are drawn uniformly; above: with a bias to fast ones", at_least(0));
  visit("draws_per_group", s.draws_per_group,
        "draws of one group in an epoch; 0: enough to see each candidate about once", at_least(0));
  visit("max_segment_nodes", s.max_segment_nodes, "largest number of nodes of a training segment; 0: whole graphs",
        at_least(0));
}

template <class Visit>
void visit_fields(SegmentSettings& s, Visit&& visit) {
  visit("method", s.method, "how computations of more than sampler.max_segment_nodes nodes are cut",
        one_of({"contiguous", "metis"}));
  visit("stale", s.stale,
        "what stands for the segments of a graph that are not trained: their past scores, their past pools, a forward "
        "pass over the whole graph without gradient, or nothing",
        one_of({"scores", "pools", "full_forward", "none"}));
  visit("keep_probability", s.keep_probability,
        "probability that a segment that is not trained counts in a draw; the trained one makes up for the others",
        between(0, 1));
  visit("refresh_interval", s.refresh_interval,
        "optimiser steps between exchanges of past values of graphs whose draws lie in several lanes", at_least(1));
  visit("history_bytes", s.history_bytes, "largest memory of past values on a rank; beyond it the oldest are forgotten",
        at_least(1));
  visit("finetune_steps", s.finetune_steps,
        "optimiser steps at the end that train the head alone, on all segments of a graph", at_least(0));
}

template <class Visit>
void visit_fields(EarlyStopSettings& s, Visit&& visit) {
  visit("patience", s.patience, "evaluations without improvement that end the run; 0: never", at_least(0));
  visit("min_delta", s.min_delta, "smallest change of the metric that counts as improvement", at_least(0));
}

template <class Visit>
void visit_fields(TrainerSettings& s, Visit&& visit) {
  visit("steps", s.steps, "largest number of optimiser steps", at_least(1));
  visit("epochs", s.epochs, "largest number of epochs; 0: no limit", at_least(0));
  visit("eval_every", s.eval_every, "optimiser steps between evaluations; 0: at the end only", at_least(0));
  visit("log_every", s.log_every, "optimiser steps between log lines", at_least(1));
  visit("threads", s.threads, "threads of each rank; 0: cores / ranks on this host", at_least(0));
  visit("device", s.device, "auto: a GPU where there is one", one_of({"auto", "cpu", "cuda"}));
  visit(
      "precision", s.precision,
      "of matrix products in training: bfloat16 keeps weights, sums over neighbours, head and loss in float32, and is "
      "slower on most CPUs; evaluation is float32 always",
      one_of({"float32", "bfloat16"}));
  visit("deterministic", s.deterministic,
        "only algorithms that repeat themselves bit by bit, also on a GPU; an operation that has none is an error");
  visit("seed", s.seed, "seed of the weights and of every draw");
  visit("baselines", s.baselines, "trained and evaluated beside the model: the mean, or a model type",
        one_of({"mean", "mlp", "gcn", "sage", "residual_gcn", "tpgnn", "statement_cost"}));
  visit("metric", s.metric, "metric that chooses the best checkpoint and drives early stopping", not_empty());
  visit("metric_goal", s.metric_goal, "direction in which the metric is better", one_of({"maximize", "minimize"}));
  visit.section("early_stop", s.early_stop, "When a run that no longer improves is ended.");
  visit("score_levels", s.score_levels,
        "after training, so many training candidates of each group show which differences of scores are noise: scores "
        "of that graph then fall into levels, and Kendall's tau-b counts candidates of a level as tied; 0: none",
        at_least(0));
  visit("member_folds", s.member_folds,
        "each of model.members learns from all but its own share of each group's configurations, and score_levels are "
        "found from scores of candidates by the member that has not seen them");
  visit("eval_states", s.eval_states, "node states evaluated at once; bounds the memory of evaluation", at_least(1));
}

template <class Visit>
void visit_fields(CheckpointSettings& s, Visit&& visit) {
  visit("every_steps", s.every_steps, "optimiser steps between checkpoints; 0: at the end and on SIGTERM only",
        at_least(0));
  visit("keep_last", s.keep_last, "number of most recent checkpoints that are kept", at_least(1));
  visit("keep_best", s.keep_best, "also keep the checkpoint with the best metric");
  visit("resume", s.resume, "auto: from the run's last whole checkpoint; never; or the path of a checkpoint",
        not_empty());
}

template <class Visit>
void visit_fields(CommSettings& s, Visit&& visit) {
  visit("backend", s.backend, "auto: single for one rank, nccl where every rank has a GPU, else mpi",
        one_of({"auto", "single", "mpi", "nccl"}));
  visit("bucket_bytes", s.bucket_bytes, "bytes of gradients reduced in one call", at_least(1));
  visit("gradient_dtype", s.gradient_dtype,
        "how gradients travel between ranks: bfloat16 halves the bytes and rounds each rank's gradient and their sum, "
        "which is made in float32",
        one_of({"float32", "bfloat16"}));
  visit("timeout_seconds", s.timeout_seconds,
        "seconds after which a stuck collective ends the run and names the late ranks", above(0));
}

template <class Visit>
void visit_fields(ShardSettings& s, Visit&& visit) {
  visit("max_rank_bytes", s.max_rank_bytes,
        "layout graphs that are estimated to need more memory are cut into parts, which several ranks may hold; 0: no "
        "limit",
        at_least(0));
  visit("mix_slack", s.mix_slack,
        "how much slower steps may become, at the most, so that batches mix graphs of unlike cost; 0: graphs of like "
        "cost always come together",
        at_least(0));
}

template <class Visit>
void visit_fields(RunSettings& s, Visit&& visit) {
  visit("directory", s.directory, "run directory: checkpoints, metrics, rankings and log", not_empty());
  visit("overwrite", s.overwrite, "begin anew: delete the run that the directory holds");
}

template <class Visit>
void visit_fields(Settings& s, Visit&& visit) {
  visit.section("data", s.data, "Which groups of program graphs are read, and how they are split.");
  visit.section("model", s.model, "The graph neural network, or a baseline in its place.");
  visit.section("loss", s.loss, "What training minimises.");
  visit.section("optimizer", s.optimizer, "How weights follow the gradient.");
  visit.section("averaging", s.averaging,
                "A mean of the weights over many steps, which is evaluated, ranks and is exported in place of the last "
                "ones.");
  visit.section("sampler", s.sampler, "What a batch holds.");
  visit.section("segments", s.segments, "How large graphs are trained on, one segment at a time.");
  visit.section("trainer", s.trainer, "How long a run takes, on what, and how it is judged.");
  visit.section("checkpoint", s.checkpoint, "When a run is saved, and how it continues.");
  visit.section("comm", s.comm, "How ranks talk to each other.");
  visit.section("shard", s.shard, "How the groups are divided among the ranks.");
  visit.section("run", s.run, "Where a run leaves its files.");
}

}  // namespace foretime::configs
