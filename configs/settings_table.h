/// The table of all settings: type, name, default, what is allowed, and meaning with unit. configs/settings.h includes
/// it to make structs, and configs/fields.cpp to make the list of fields that loading, overrides, printing, completion
/// and the reference page work on, in this order. CHOICE is a setting that is one of some words.

STRUCT(HardwareSettings) {
  FIELD(int64_t, vector_bytes, 64, at_least(4), "bytes of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512");
  FIELD(int64_t, vector_registers, 32, at_least(1), "vector registers: 16 up to AVX2, 32 for AVX-512 and NEON");
  FIELD(int64_t, cores, 1, at_least(1), "cores that the parallel loops of a program had");
  FIELD(int64_t, l1_bytes, 49152, at_least(1), "first-level data cache of a core, bytes");
  FIELD(int64_t, l2_bytes, 1048576, at_least(1), "second-level cache of a core, bytes");
  FIELD(int64_t, l3_bytes, 33554432, at_least(1), "third-level cache, shared by the cores, bytes");
  FIELD(
      double, multiply_add_gflop_s, 0.0, at_least(0),
      "10^9 multiplications and additions of float32 a second on one core; 0: not measured, guessed from the vectors");
  FIELD(double, all_multiply_add_gflop_s, 0.0, at_least(0), "likewise on all cores at once; 0: cores times one");
  FIELD(double, copy_gb_s, 0.0, at_least(0), "10^9 bytes a second that one core reads and writes; 0: guessed");
  FIELD(double, all_copy_gb_s, 0.0, at_least(0), "likewise all cores together; 0: guessed");
  FIELD(int64_t, multiprocessors, 0, between(0, 1048576),
        "of a GPU, whose `cores` they are as well; 0: a CPU, and nothing of what follows is looked at");
  FIELD(int64_t, warp_size, 32, between(1, 64), "threads of a warp: 32 of NVIDIA's GPUs, 64 of AMD's");
  FIELD(int64_t, threads_per_block, 1024, at_least(1), "that a block of threads may have");
  FIELD(int64_t, shared_bytes_per_block, 49152, at_least(1), "of shared memory that it may have");
  FIELD(int64_t, threads_per_multiprocessor, 2048, at_least(64), "that a multiprocessor holds at once");
  FIELD(int64_t, blocks_per_multiprocessor, 32, at_least(1), "likewise blocks");
  FIELD(int64_t, registers_per_multiprocessor, 65536, at_least(1), "registers of 32 bits");
  FIELD(int64_t, registers_per_thread, 255, at_least(1), "that a thread may have");
  FIELD(int64_t, shared_bytes_per_multiprocessor, 98304, at_least(1), "shared memory, bytes");
};

STRUCT(DataSettings) {
  CHOICE(DataFormat, format, layout, "how the program graphs are stored");
  CHOICE(Representation, representation, ast,
         "programs: what a tensor program's graph is: "
         "its syntax tree, its loops and accesses, or one node with its context relation features");
  FIELD(std::string, root, ".", not_empty(),
        "folder where relative patterns start; relative itself to the working folder");
  FIELD(Strings, train, {}, anything, "groups to train on: files, folders, globs or packed collections");
  FIELD(Strings, valid, {}, anything, "groups that choose the best checkpoint, named as in train");
  FIELD(Strings, test, {}, anything, "groups that are reported once, at the end, named as in train");
  CHOICE(Overlap, overlap, refuse,
         "what becomes of a run that trains on groups of valid or of test, told by their contents: "
         "it is refused, or warned of");
  FIELD(std::string, eval_indices, "", anything,
        "JSON file with TpuGraphs' official validation candidates; empty: all candidates");
  FIELD(std::string, node_type_vectors, "", anything,
        "model.node_types.vectors fasttext: file of vectors in FastText's text form (.vec); "
        "empty: they are trained on the training groups when training starts");
  FIELD(double, holdout, 0.0, from_to_below(0, 1),
        "fraction of each training group's distinct configurations that is kept for evaluation");
  FIELD(int64_t, max_eval_candidates, 1000, at_least(0),
        "largest number of candidates evaluated in a group; 0: all; groups without run times are ranked as a whole");
  FIELD(double, train_fraction, 1.0, above_up_to(0, 1), "fraction of the remaining training candidates that is used");
  CHOICE(Duplicates, duplicates, keep,
         "training candidates of one configuration: "
         "keep all, the first alone, or the first with the mean run time of all; what is evaluated stays as it is");
  FIELD(int64_t, prune_hops, -1, at_least(-1),
        "layout: nodes that are more edges away from every configurable node, "
        "in whatever direction, are cut away in training, evaluation and ranking; -1: none");
  FIELD(int64_t, read_threads, 2, at_least(0),
        "threads of each rank that open groups before they are drawn; 0: each is opened when it is needed");
  FIELD(Strings, allowed_roots, {}, anything,
        "folders, relative to the working folder, "
        "outside of which no data file is read, symbolic links resolved; empty: anywhere");
  FIELD(Strings, targets, {}, anything,
        "files of `foretime target measure`, relative to data.root: "
        "the machines that tuning records name by -model= in their targets; a bundle keeps what they say");
  SECTION(HardwareSettings, hardware,
          "The machine that tensor programs were measured on, where columns of loop graphs depend on it.");
};

STRUCT(FeatureSettings) {
  CHOICE(FeatureTransform, transform, minmax, "scaling of each column, fitted on the training graphs");
  FIELD(bool, log, false, anything, "take sign(x) log(1 + |x|) before the scaling");
  CHOICE(
      LayoutFeatures, layout, scaled,
      "what a layout's 18 numbers become: scaled numbers, numbers times learned factors, or learned vectors of each");
  FIELD(double, layout_scale, 100.0, above(0),
        "layout scaled: factor on layout features, as in the published baseline; learned_scale: the factors at first");
  FIELD(int64_t, layout_embedding, 4, at_least(1), "layout embedding: width of the vector of each of the 18 numbers");
  FIELD(
      Strings, columns, {}, anything,
      "columns of node features that the model reads, by name, or by the beginning of several names and *; empty: all");
};

STRUCT(NodeTypeSettings) {
  CHOICE(NodeTypeVectors, vectors, learned,
         "learned with the model; or fasttext (programs): trained beforehand on walks through syntax trees, or read "
         "(data.node_type_vectors), then fixed and kept in the checkpoint");
  FIELD(int64_t, walks, 4000, at_least(1),
        "fasttext: walks through the syntax trees of the training groups, of all together");
  FIELD(int64_t, walk_length, 24, between(2, 1000), "fasttext: largest number of nodes of a walk");
  FIELD(int64_t, walk_epochs, 5, between(1, 10000), "fasttext: passes over the walks");
  FIELD(int64_t, walk_window, 5, between(1, 1000),
        "fasttext: largest distance of a node type from those that it predicts");
  FIELD(double, walk_rate, 0.05, above(0), "fasttext: step size at the beginning");
  FIELD(bool, subwords, true, anything, "fasttext: types whose names share parts share parts of their vectors");
};

STRUCT(SageSettings) {
  CHOICE(Aggregation, aggregation, mean, "what becomes of the neighbours' states");
  CHOICE(Directions, directions, apart,
         "messages of producers and of consumers apart, with weights of their own, or together");
};

STRUCT(GinSettings) {
  CHOICE(Directions, directions, apart,
         "messages of producers and of consumers apart, with weights of their own, or together");
};

/// Holds the settings of gat and of transformer.
STRUCT(AttentionSettings) {
  FIELD(int64_t, heads, 4, at_least(1), "attention heads, which divide model.hidden");
  CHOICE(Directions, directions, apart,
         "messages of producers and of consumers apart, with weights of their own, or together");
};

STRUCT(ChebnetSettings) {
  FIELD(int64_t, order, 3, at_least(1),
        "number of Chebyshev polynomials; a layer of order K passes messages K - 1 steps");
};

STRUCT(StackedSettings) {
  FIELD(std::vector<ConvolutionType>, convolutions, {}, anything,
        "the message-passing layers, by type, instead of model.layers");
};

STRUCT(TpgnnSettings) {
  FIELD(double, pool_ratio, 0.8, above_up_to(0, 1),
        "part of each graph's nodes that stays after each convolution's pooling");
};

STRUCT(StatementCostSettings) {
  FIELD(std::vector<StatementInput>, inputs,
        (std::vector{StatementInput::loops, StatementInput::accesses, StatementInput::statement}), anything,
        "what the cost of a statement depends on: its loops, its accesses, the statement itself, "
        "or of the latter the innermost block alone; and the machine that it runs on");
  FIELD(
      bool, roofline, false, anything,
      "what is learned is a correction to the time that arithmetic, accesses and caches allow at best on the machine");
  FIELD(bool, context, false, anything, "the cost of a statement also depends on the program's other statements");
  FIELD(int64_t, loop_hidden, 64, at_least(1), "width of the dense stack over loops");
  FIELD(double, clip, 3.0, at_least(0), "scaled columns are cut at so many deviations; 0: not at all");
};

STRUCT(ModelSettings) {
  CHOICE(ModelType, type, residual_gcn, "model that scores the candidates");
  FIELD(int64_t, hidden, 32, at_least(1), "width of the hidden states");
  FIELD(int64_t, layers, 2, at_least(0), "message-passing layers");
  FIELD(int64_t, node_type_embedding, 32, at_least(1), "width of the vector of an opcode or node type");
  FIELD(int64_t, collection_embedding, 0, at_least(0),
        "width of the learned vector of a graph's TpuGraphs collection, which its files' folders name; 0: none");
  FIELD(int64_t, encoder_layers, 2, at_least(0),
        "dense layers before propagation (prenet); 0: inputs are the first states as they are");
  FIELD(int64_t, encoder_hidden, 0, at_least(0), "width of these layers but the last; 0: model.hidden");
  FIELD(bool, layout_gate, false, anything,
        "layout: a node's layout also adds a separate vector to the state, scaled by a gate that the node's other "
        "columns decide; of graphs that no training saw, layouts are ranked better");
  FIELD(
      int64_t, head_layers, 2, at_least(1),
      "dense layers after the readout (postnet), the last one to a scalar; tpgnn: each half as wide as the one before");
  FIELD(std::vector<ReadoutPart>, readout,
        (std::vector{ReadoutPart::mean, ReadoutPart::normalized_sum, ReadoutPart::configurable_normalized_sum}),
        not_empty(),
        "how final states become one vector; several are concatenated. configurable_: over configurable nodes; "
        "decision_: over these, those whose layouts are always chosen together counting as one");
  CHOICE(Activation, activation, leaky_relu, "activation between dense layers and after convolutions");
  FIELD(double, leaky_slope, 0.2, at_least(0), "leaky_relu: slope for negative inputs");
  FIELD(double, dropout, 0.0, from_to_below(0, 1), "probability that an activation is dropped in training");
  FIELD(double, edge_dropout, 0.0, from_to_below(0, 1),
        "probability that a message is left out in training; sums of the others are scaled up");
  FIELD(bool, residual, true, anything, "each layer gives x + conv(x), as residual_gcn and preactivated_gcn always do");
  CHOICE(Norm, norm, none,
         "normalisation after each convolution: layer (each state alone), batch (each column over the batch; "
         "running means in evaluation) or graph (over a candidate's nodes, so that candidates share no states)");
  CHOICE(StateSharing, sharing, states,
         "layout: which node states are computed once: equal ones (states), those that no layout reaches (invariant), "
         "or none; scores are the same");
  FIELD(bool, l2_normalize, false, anything, "scale each state to unit length after each layer");
  FIELD(bool, candidate_norm, false, anything,
        "the readout's columns are standardised over the candidates of the group that are ranked together");
  FIELD(bool, candidate_attention, false, anything,
        "the readout gives, beside each column, its softmax over the candidates of the group: "
        "scores then depend on which candidates are ranked together");
  FIELD(bool, failure_output, false, anything,
        "programs: the chance that a candidate does not build or run, as a separate output (loss.failure_weight)");
  CHOICE(TileJoin, tile_join, early,
         "tile: where the candidate's features join the nodes' (before or after propagation)");
  FIELD(int64_t, ensemble_size, 1, at_least(1),
        "models that are trained apart on the same batches; the score is their mean");
  CHOICE(HeadBias, head_bias, none, "whether the head's dense layers have a bias");
  SECTION(StackedSettings, stacked, "Layers of several types, which take the settings of their own types' sections.");
  SECTION(SageSettings, sage, "GraphSAGE.");
  SECTION(GinSettings, gin, "Graph isomorphism network.");
  SECTION(AttentionSettings, gat, "Graph attention network.");
  SECTION(ChebnetSettings, chebnet, "Chebyshev spectral convolutions.");
  SECTION(AttentionSettings, transformer, "Attention to neighbours by queries and keys.");
  SECTION(TpgnnSettings, tpgnn, "Graph network with pooling, for syntax trees.");
  SECTION(StatementCostSettings, statement_cost, "The run time as the sum of the costs of statements.");
  SECTION(NodeTypeSettings, node_types, "Where the vectors of node types come from.");
  SECTION(FeatureSettings, features, "How raw inputs become the numbers that a model sees.");
};

STRUCT(LossSettings) {
  CHOICE(LossType, type, listmle, "loss of one group, averaged over the groups of a batch");
  FIELD(double, temperature, 1.0, above(0), "listmle, pairwise_logistic: scores are divided by it");
  FIELD(double, margin, 0.1, at_least(0), "pairwise_hinge: difference of scores that costs nothing");
  FIELD(double, delta, 1.0, above(0), "huber: error where the loss turns from quadratic to linear");
  FIELD(double, mse_weight, 0.0, at_least(0), "w of (loss + w mse) / (1 + w)");
  FIELD(double, huber_weight, 0.0, at_least(0),
        "w of (loss + w huber) / (1 + w): keeps the scores of a ranking loss near the targets");
  FIELD(double, failure_weight, 0.3, at_least(0),
        "w of loss + w times the cross entropy of the chance of failure, with model.failure_output");
  CHOICE(LossTarget, target, runtime, "what regression losses compare scores with");
  FIELD(double, target_scale, 1.0, above(0), "factor on runtime targets");
  FIELD(bool, standardize_target, false, anything, "subtract the training mean and divide by the training deviation");
};

STRUCT(OptimizerSettings) {
  CHOICE(OptimizerType, type, adam, "adamw decouples the weight decay from the gradient");
  FIELD(double, learning_rate, 1e-3, at_least(0), "step size after the warm-up; 0: weights stay as they began");
  FIELD(double, weight_decay, 0.0, at_least(0), "weight decay");
  FIELD(double, beta1, 0.9, from_to_below(0, 1), "decay of the gradient's running mean");
  FIELD(double, beta2, 0.999, from_to_below(0, 1), "decay of the squared gradient's running mean");
  FIELD(double, epsilon, 1e-8, above(0), "added to the denominator of a step");
  FIELD(double, clip_norm, 1.0, at_least(0), "largest gradient norm; 0 turns clipping off");
  CHOICE(ClipScope, clip, global, "the norm that is clipped: of all gradients together, or of each tensor's");
  CHOICE(Schedule, schedule, constant, "learning rate after the warm-up");
  FIELD(int64_t, warmup_steps, 0, at_least(0), "steps over which the learning rate rises linearly from 0");
  FIELD(double, final_ratio, 0.0, between(0, 1), "cosine: learning rate at the end, relative to learning_rate");
  FIELD(int64_t, accumulation, 1, at_least(1), "batches summed before one optimiser step");
};

STRUCT(AveragingSettings) {
  CHOICE(AveragingType, type, none,
         "ema: exponential moving average over the steps, corrected for its beginning; "
         "swa: mean of the weights of some steps (stochastic weight averaging)");
  FIELD(double, decay, 0.999, from_to_below(0, 1), "ema: weight of the past in each step");
  FIELD(double, start, 0.0, from_to_below(0, 1),
        "fraction of the steps that comes before the first one that counts; swa was published with 0.75");
  FIELD(int64_t, every_steps, 1, at_least(1), "swa: optimiser steps between those that count");
};

STRUCT(SamplerSettings) {
  FIELD(int64_t, groups_per_batch, 4, at_least(1), "groups in a batch, over all ranks together");
  FIELD(int64_t, candidates_per_group, 16, at_least(0), "candidates drawn from each group of a batch; 0: all");
  FIELD(double, fast_bias, 0.0, at_least(0), "0: candidates are drawn uniformly; above: with a bias to fast ones");
  FIELD(int64_t, samples_per_group, 1, at_least(0),
        "samples of one group in an epoch; 0: enough to see each candidate about once");
  FIELD(int64_t, max_segment_nodes, 0, at_least(0), "largest number of nodes of a training segment; 0: whole graphs");
  CHOICE(ResidentPlans, resident_plans, auto_,
         "whether the states of all candidates of a layout graph are laid out once and computed in each step, "
         "instead of those of the drawn ones; auto: where that is little more work");
  FIELD(int64_t, resident_bytes, 2147483648, at_least(0),
        "largest memory of such plans on a rank, where it computes; each graph has an equal share");
  FIELD(int64_t, resident_host_bytes, 4294967296, at_least(0),
        "pinned memory of the host, about, for those that a GPU has no room for: they go up for each draw. "
        "It adds to the graphs' shares, on a GPU alone");
};

STRUCT(SegmentSettings) {
  CHOICE(SegmentMethod, method, contiguous, "how computations of more than sampler.max_segment_nodes nodes are cut");
  CHOICE(Stale, stale, scores,
         "what replaces the segments of a graph that are not trained: "
         "their past scores, their past pools, a forward pass over the whole graph without gradient, or nothing");
  FIELD(double, keep_probability, 0.5, between(0, 1),
        "probability that a segment that is not trained counts in a sample; the trained one makes up for the others");
  FIELD(int64_t, refresh_interval, 10, at_least(1),
        "optimiser steps between exchanges of past values of graphs whose samples lie in several batch slots");
  FIELD(int64_t, history_bytes, 1073741824, at_least(1),
        "largest memory of past values on a rank; beyond it the oldest are forgotten");
  FIELD(int64_t, finetune_steps, 0, at_least(0),
        "optimiser steps at the end that train the head alone, on all segments of a graph");
};

STRUCT(EarlyStopSettings) {
  FIELD(int64_t, patience, 0, at_least(0), "evaluations without improvement that end the run; 0: never");
  FIELD(double, min_delta, 0.0, at_least(0), "smallest change of the metric that counts as improvement");
};

STRUCT(TrainerSettings) {
  FIELD(int64_t, steps, 200, at_least(1), "largest number of optimiser steps");
  FIELD(int64_t, epochs, 0, at_least(0), "largest number of epochs; 0: no limit");
  FIELD(int64_t, eval_every, 0, at_least(0), "optimiser steps between evaluations; 0: at the end only");
  FIELD(int64_t, log_every, 10, at_least(1), "optimiser steps between log lines");
  FIELD(int64_t, threads, 0, at_least(0), "threads of each rank; 0: cores / ranks on this host");
  CHOICE(Device, device, auto_, "auto: a GPU where there is one");
  CHOICE(Precision, precision, float32,
         "of matrix products in training: tf32 rounds what they multiply to 11 significant bits, on GPUs that can; "
         "bfloat16 to 8, keeps weights, sums over neighbours, head and loss in float32, and is slower on most CPUs; "
         "evaluation is float32 always");
  FIELD(bool, deterministic, false, anything,
        "only algorithms that repeat themselves bit by bit, also on a GPU; an operation that has none is an error");
  FIELD(uint64_t, seed, 1, anything, "seed of the weights and of every draw");
  FIELD(std::vector<Baseline>, baselines, {}, anything,
        "trained and evaluated beside the model: the mean, or a model type");
  FIELD(std::string, metric, "valid/kendall_tau", not_empty(),
        "metric that chooses the best checkpoint and drives early stopping");
  CHOICE(Goal, metric_goal, auto_,
         "direction in which the metric is better; auto: the metric's own, and any other is refused");
  SECTION(EarlyStopSettings, early_stop, "When a run that no longer improves is ended.");
  FIELD(int64_t, tie_threshold_candidates, 0, at_least(0),
        "after training, so many training candidates of each group show which differences of scores are noise: scores "
        "of that graph then fall into levels, and Kendall's tau-b counts candidates of a level as tied; 0: none");
  FIELD(bool, cross_fitting, false, anything,
        "each of the models of model.ensemble_size learns from all but its own share of each group's configurations, "
        "and tie thresholds are found from scores of candidates by the model that has not seen them");
  FIELD(int64_t, eval_states, 2000000, at_least(1), "node states evaluated at once; bounds the memory of evaluation");
};

STRUCT(CheckpointSettings) {
  FIELD(int64_t, every_steps, 0, at_least(0),
        "optimiser steps between checkpoints; 0: only by time, at the end and when the run is asked to stop");
  FIELD(double, every_minutes, 10.0, at_least(0), "minutes between checkpoints, at the most; 0: no limit");
  FIELD(int64_t, keep_last, 2, at_least(1), "number of most recent checkpoints that are kept");
  FIELD(bool, keep_best, true, anything, "also keep the checkpoint with the best metric");
  FIELD(bool, compare_replicas, true, anything,
        "before a checkpoint is written, ranks compare their weights bit by bit, and end the run where they differ");
  FIELD(std::string, resume, "auto", not_empty(),
        "auto: from the run's last whole checkpoint; never; or the path of a checkpoint");
};

STRUCT(CommSettings) {
  CHOICE(Backend, backend, auto_, "auto: single for one rank, nccl where every rank has a GPU, else mpi");
  FIELD(int64_t, bucket_bytes, 1 << 20, at_least(1), "bytes of gradients reduced in one call");
  CHOICE(GradientType, gradient_dtype, float32,
         "how gradients travel between ranks: "
         "bfloat16 takes half the bytes and rounds each rank's gradient and their sum, which is made in float32");
  FIELD(bool, hierarchical, true, anything,
        "gradients are summed within hosts, then between them, where hosts have several ranks (mpi); "
        "the sums are the same either way");
  FIELD(double, timeout_seconds, 600.0, above_up_to(0, 1e9),
        "seconds after which a stuck collective ends the run and names the late ranks; "
        "a rank that evaluates is late where no score was made for so long");
};

STRUCT(ShardSettings) {
  FIELD(int64_t, max_rank_bytes, 0, at_least(0),
        "layout graphs that are estimated to need more memory are cut into parts, "
        "which several ranks may hold; 0: no limit");
  FIELD(double, mix_slack, 0.1, at_least(0),
        "how much slower steps may become, at the most, so that batches mix graphs of unlike cost; "
        "0: graphs of like cost always come together");
};

STRUCT(RunSettings) {
  FIELD(std::string, directory, "runs/default", not_empty(), "run directory: checkpoints, metrics, rankings and log");
  FIELD(bool, overwrite, false, anything, "begin again: delete the run that the directory holds");
};

STRUCT(Settings) {
  SECTION(DataSettings, data, "Which groups of program graphs are read, and how they are split.");
  SECTION(ModelSettings, model, "The graph neural network, or a baseline in its place.");
  SECTION(LossSettings, loss, "What training minimises.");
  SECTION(OptimizerSettings, optimizer, "How weights follow the gradient.");
  SECTION(
      AveragingSettings, averaging,
      "A mean of the weights over many steps, which is evaluated, ranks and is exported in place of the last ones.");
  SECTION(SamplerSettings, sampler, "What a batch holds.");
  SECTION(SegmentSettings, segments, "How large graphs are trained on, one segment at a time.");
  SECTION(TrainerSettings, trainer, "How long a run takes, on what, and how it is judged.");
  SECTION(CheckpointSettings, checkpoint, "When a run is saved, and how it continues.");
  SECTION(CommSettings, comm, "How ranks talk to each other.");
  SECTION(ShardSettings, shard, "How the groups are divided among the ranks.");
  SECTION(RunSettings, run, "Where a run leaves its files.");
};
