#include "worker/step/run_context.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "configs/metrics.h"
#include "configs/settings_error.h"
#include "data/dataset/table_pack.h"
#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/loops/machines.h"
#include "models/statistics.h"
#include "sharding/dataset_index.h"
#include "worker/batches/sampler.h"
#include "worker/segments/segment_training.h"
#include "worker/state/device.h"
#include "worker/store/type_vectors.h"

namespace foretime::worker {
namespace {

/// Opens groups in the order of their first use.
void read_ahead(RunContext& run) {
  auto order = Sampler(run.plan, run.settings.sampler, run.settings.trainer.seed).first_uses(0, run.comm.rank());
  // What is evaluated only comes last.
  const std::set<int64_t> sampled(order.begin(), order.end());
  for (const int64_t entry : run.store->entries())
    if (!sampled.contains(entry)) order.push_back(entry);
  run.store->read_ahead(order);
}

void report_sharing(const RunContext& run) {
  const auto& model = run.settings.model;
  if (run.settings.data.format != configs::DataFormat::layout) return;
  const auto sharing = run.model->plan_request().sharing;
  if (sharing == plans::Sharing::none && model.sharing != configs::StateSharing::none)
    run.log.warn(
        "model.norm {} depends on all nodes of a candidate: every node of every candidate is computed separately",
        word_of(model.norm));
  if (sharing == plans::Sharing::states && model.dropout > 0)
    run.log.info("nodes and candidates that share a state share its dropout (model.sharing)");
}

std::unique_ptr<ForwardPass> make_forward_pass(RunContext& run) {
  const auto& settings = run.settings;
  if (settings.sampler.max_segment_nodes == 0)
    return std::make_unique<WholeGraphs>(*run.model, run.device, settings, run.plan, run.comm.rank());
  auto segments =
      std::make_unique<SegmentTraining>(settings, run.index, run.plan, run.comm.rank(), *run.model, run.device);
  run.first_head_step = run.total_steps() - settings.segments.finetune_steps;
  segments->train_head_from(run.first_head_step * settings.optimizer.accumulation);
  return segments;
}

/// Results on groups that were trained on say nothing of others.
void check_overlap(RunContext& run) {
  for (const auto role : {sharding::Role::valid, sharding::Role::test}) {
    const auto overlap = sharding::find_overlap(run.index, role);
    if (overlap.empty()) continue;
    if (run.settings.data.overlap == configs::Overlap::refuse)
      throw configs::SettingsError(
          "{}; take them out of data.train or data.{}, or set data.overlap=warn if this is intended", overlap,
          sharding::to_string(role));
    run.log.warn("{}", overlap);
  }
}

/// Checks that loop programs for training were packed for the machines that the bundle will describe (data.targets).
/// Otherwise caches and rates would be guessed in training and measured when the bundle scores, or vice versa.
class MachineCheck {
 public:
  /// Reads the files of data.targets. `columns` is the number of columns of node features. Throws
  /// configs::SettingsError if a file is invalid, or if data.targets names files and data.format and
  /// data.representation are not programs and loops; DataError if data.allowed_roots does not allow a file.
  MachineCheck(const configs::Settings& settings, int64_t columns)
      : has_machines_(settings.data.format == configs::DataFormat::programs &&
                      settings.data.representation == configs::Representation::loops),
        gpu_(data::are_gpu_columns(columns)),
        log_(settings.model.features.log),
        hardware_(data::machine_values(data::hardware_of(settings.data.hardware))) {
    const auto& files = settings.data.targets;
    if (const auto admit = sharding::allowed_roots_check(settings.data))
      for (const auto& file : files) admit(std::filesystem::path(settings.data.root) / file);
    const auto machines = data::read_machines(files, settings.data.root);
    for (const auto& machine : machines.all()) {
      names_.push_back(machine.name);
      target_machines_.push_back(data::machine_values(machine.hardware));
    }
    if (files.empty() || has_machines_) return;
    throw configs::SettingsError(
        "data.targets: names machines ({}), which only programs as loop graphs depend on; "
        "set data.format=programs and data.representation=loops, or leave data.targets out",
        fmt::join(names_, ", "));
  }

  /// Returns whether a training group was packed for a machine of data.targets; false for other data than loop
  /// programs. `features` are statistics of its node features. Throws DataError if it was packed for another machine,
  /// unless that is a GPU, data.hardware or undescribed.
  bool is_described(const data::GroupHeader& group, const data::ColumnStatistics& features) const {
    if (!has_machines_) return false;
    // The largest value of a column is that of its statements, or the 0 of other nodes.
    const auto is = [&](const data::MachineValues& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        const double value = std::max<double>(0.0, values[i]), expected = log_ ? std::log1p(value) : value;
        if (std::abs(features.maxima[data::LoopColumns::of_machine_alone[i]] - expected) > 1e-6 * (1.0 + expected))
          return false;
      }
      return true;
    };
    if (std::ranges::any_of(target_machines_, is)) return true;
    // What is known of a GPU without a file is known from its target, in training as when a bundle scores.
    if (gpu_ || is(hardware_) || is(data::machine_values({}))) return false;
    throw DataError(
        "{}: {}: was packed for a machine that {}, so that a bundle of this run would guess its caches and rates; "
        "name the files in data.targets that pack-records had as --targets "
        "(or put what it had as --hardware into data.hardware)",
        group.file.string(), group.name,
        names_.empty() ? "data.targets does not name"
                       : fmt::format("is none of data.targets ({})", fmt::join(names_, ", ")));
  }

  /// Throws configs::SettingsError if `groups`, the number of described groups of all ranks, is 0 although data.targets
  /// names machines.
  void require_described(double groups) const {
    if (names_.empty() || groups > 0.0) return;
    throw configs::SettingsError(
        "data.targets: names machines ({}), but no group of data.train was packed with these files: "
        "the model would learn from guesses and score by measurements; "
        "pack the records with the same files (foretime data pack-records --targets), or leave data.targets out",
        fmt::join(names_, ", "));
  }

 private:
  bool has_machines_;                                 // data are loop programs, whose columns describe a machine
  bool gpu_;                                          // programs are for GPUs
  bool log_;                                          // statistics are of logarithms (model.features.log)
  std::vector<std::string> names_;                    // names of the machines of data.targets
  std::vector<data::MachineValues> target_machines_;  // values of the machines, in the order of `names_`
  data::MachineValues hardware_;                      // values of data.hardware
};

}  // namespace

RunContext::RunContext(const configs::Settings& wanted, comm::Communicator& communicator, spdlog::logger& logger,
                       Profiler* profile)
    : settings(wanted),
      comm(communicator),
      log(logger),
      profiler(profile),
      device(choose_device(settings.trainer.device, comm)),
      early_stop(configs::maximizes(settings.trainer), settings.trainer.early_stop.patience,
                 settings.trainer.early_stop.min_delta) {}

int64_t RunContext::total_steps() const {
  int64_t steps = settings.trainer.steps;
  if (settings.trainer.epochs > 0) {
    const int64_t batches = settings.trainer.epochs * plan.batches_per_epoch;
    steps = std::min(steps, (batches + settings.optimizer.accumulation - 1) / settings.optimizer.accumulation);
  }
  return steps;
}

void load_data(RunContext& run) {
  const bool root = run.root();
  if (const auto warning = device_warning(run.device, run.comm, run.settings.trainer.precision);
      root && !warning.empty())
    run.log.warn("{}", warning);
  std::string listed;
  comm::run_together(run.comm, [&] {
    if (!root) return;
    run.index = sharding::make_dataset_index(run.settings);
    sharding::check_representation(run.index, run.settings.data);
    check_overlap(run);
    for (const auto& entry : run.index.entries)
      for (const auto& line : data::oddities_of(entry.header))
        run.log.warn("{} looks odd: {}", entry.header.file.string(), line);
    if (run.index.with_role(sharding::Role::train).empty()) throw DataError("data.train: names no groups");
    run.directory = std::make_unique<coordinator::RunDirectory>(
        run.settings, coordinator::DataFingerprints{run.index.fingerprint(), run.index.training_fingerprint()});
    if (run.directory->restarts_empty_run())
      run.log.info("{}: holds a run without a checkpoint; starting it again", run.directory->path().string());
    run.directory->write(
        "environment.json",
        coordinator::describe_environment(run.comm.size(), torch::get_num_threads(), run.comm.name(), run.device.str())
                .dump(2) +
            "\n");
    run.state.columns = data::columns_text(run.index.headers());
    listed = sharding::serialize(run.index);
  });
  run.state.columns = run.comm.broadcast_bytes(run.state.columns, 0);
  run.index =
      sharding::parse_dataset_index(run.comm.broadcast_bytes(listed, 0), data::make_featurizer(run.settings.data));
  run.plan = sharding::make_shard_plan(run.index, run.settings, run.comm.size());
  comm::run_together(run.comm, [&] {
    const auto entries = run.plan.entries_of(run.comm.rank());
    sharding::verify_files(run.index, entries, sharding::allowed_roots_check(run.settings.data));
    run.store =
        std::make_unique<GroupStore>(run.settings, run.index, entries, load_official_indices(run.settings.data));
  });
  // An .npz has no summary, so the transforms wait until all are read.
  const auto is_npz = [](const sharding::IndexEntry& entry) { return entry.header.member < 0; };
  if (std::any_of(run.index.entries.begin(), run.index.entries.end(), is_npz)) read_ahead(run);
  const std::string shares = run.comm.size() > 1 ? fmt::format(" on {} ranks, whose work differs by {:.1f} %",
                                                               run.comm.size(), 100 * run.plan.imbalance)
                                                 : "";
  run.log.info("{} training groups, {} batches an epoch of {} samples each{}",
               run.index.with_role(sharding::Role::train).size(), run.plan.batches_per_epoch, run.plan.slots.size(),
               shares);
}

void build_model(RunContext& run) {
  int64_t types = 0;
  for (const auto& entry : run.index.entries) types = std::max(types, entry.header.node_type_count);
  comm::run_together(run.comm, [&] {
    auto& schema = run.state.schema;
    schema.kind = sharding::candidate_kind(run.settings.data.format);
    schema.feature_count = run.index.entries.front().header.feature_count;
    schema.node_type_count = types;
    {
      // Every rank makes the same weights. Ranks that are threads share LibTorch's generator, so they take turns.
      static std::mutex generator;
      const std::lock_guard lock(generator);
      torch::manual_seed(run.settings.trainer.seed);
      run.model = models::make_model(run.settings.model, schema);
    }
    run.model->to(run.device);
    run.store->prepare_plans(run.model->plan_request());
    run.forward = make_forward_pass(run);
  });
  read_ahead(run);
  run.state.settings = run.settings;
  run.state.data_fingerprint = run.index.fingerprint();
  NamedTensors parameters;
  for (const auto& item : run.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  run.optimizer = std::make_unique<Adam>(parameters, run.settings.optimizer);
  run.average = make_weight_average(run.settings.averaging, *run.model, run.total_steps());
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters) count += tensor.numel();
  run.log.info("model {}: {} parameters in {} tensors, on {}", word_of(run.settings.model.type), count,
               parameters.size(), run.device.str());
  report_sharing(run);
}

void fit_transforms(RunContext& run) {
  // Each training group counts once, on the rank that evaluates it, wherever else it is sampled.
  models::StatisticsAccumulator inputs(run.state.schema, run.settings.model.features.log);
  models::TargetStatistics targets(models::TargetTransform::from(run.settings.loss));
  double runtime_sum = 0, count = 0, failed = 0, described = 0;
  std::optional<MachineCheck> machines;
  comm::run_together(run.comm, [&] {
    machines.emplace(run.settings, run.state.schema.feature_count);
    for (const int64_t entry : run.index.with_role(sharding::Role::train)) {
      if (run.plan.eval_rank(entry) != run.comm.rank()) continue;
      const auto part = run.store->training_part(entry);
      described += machines->is_described(run.index[entry].header, part.features);
      inputs.add(part.features, part.tile_features);
      targets.add(part.labels, part.train);
      for (const int64_t c : part.train) {
        if (std::isinf(part.labels.runtimes[c])) {
          ++failed;
          continue;
        }
        runtime_sum += part.labels.runtimes[c];
        ++count;
      }
    }
  });
  auto totals = torch::tensor({runtime_sum, count, failed, described}, torch::kDouble);
  const auto reduce = [&](torch::Tensor tensor, comm::ReduceOp op) {
    auto on_device = tensor.to(run.comm.device());
    run.comm.all_reduce(on_device, op)->wait();
    tensor.copy_(on_device);
  };
  reduce(inputs.sums(), comm::ReduceOp::sum);
  reduce(inputs.minima(), comm::ReduceOp::min);
  reduce(inputs.maxima(), comm::ReduceOp::max);
  reduce(targets.sums(), comm::ReduceOp::sum);
  reduce(totals, comm::ReduceOp::sum);
  runtime_sum = totals[0].item<double>();
  count = totals[1].item<double>();
  failed = totals[2].item<double>();
  comm::run_together(run.comm, [&] { machines->require_described(totals[3].item<double>()); });
  auto statistics = inputs.finish();
  statistics.type_vectors =
      make_type_vectors(run.settings, run.index, run.state.schema.node_type_count, *run.store, run.comm);
  if (statistics.type_vectors.defined())
    run.log.info("vectors of {} node types, {} columns, {}", statistics.type_vectors.size(0),
                 statistics.type_vectors.size(1),
                 run.settings.data.node_type_vectors.empty()
                     ? fmt::format("from {} walks through the training programs", run.settings.model.node_types.walks)
                     : "from " + run.settings.data.node_type_vectors);
  run.model->fit_transform(statistics);
  run.state.targets =
      run.settings.loss.standardize_target ? targets.fit() : models::TargetTransform::from(run.settings.loss);
  run.state.train_mean_runtime = runtime_sum / count;
  if (failed > 0) run.log.info("{:.0f} of {:.0f} training candidates failed", failed, failed + count);
  if (failed == 0 && run.settings.model.failure_output)
    run.log.warn(
        "model.failure_output: true, but no training candidate failed: "
        "predicted chances of failure will be meaningless; set it to false, or pack records with those that failed");
}

}  // namespace foretime::worker
