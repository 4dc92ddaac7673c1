#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/checksum.h"
#include "base/counter_random.h"
#include "base/error.h"
#include "base/files.h"
#include "base/message.h"
#include "base/numbers.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "configs/run_mark.h"
#include "coordinator/run_directory.h"
#include "coordinator/run_lock.h"
#include "experiments/trials.h"
#include "metrics/metrics.h"
#include "models/baselines/booster.h"
#include "models/baselines/record_rows.h"
#include "models/baselines/runtime_model.h"
#include "models/baselines/throughput_model.h"
#include "sharding/dataset_index.h"
#include "worker/evaluation/evaluator.h"
#include "worker/run/training_run.h"

namespace foretime::experiments {
namespace {

using models::ProgramRows;

/// All groups of a trial, opened and divided as training divides them.
class Groups {
 public:
  explicit Groups(const configs::Settings& settings)
      : dataset_(sharding::make_dataset_index(settings)),
        store_(settings, dataset_, all_entries(dataset_), worker::load_official_indices(settings.data)) {}

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const int64_t entry : store_.entries()) visit(dataset_.entries[entry].role, store_.get(entry));
  }

 private:
  static std::vector<int64_t> all_entries(const sharding::DatasetIndex& dataset) {
    std::vector<int64_t> entries(dataset.entries.size());
    std::iota(entries.begin(), entries.end(), 0);
    return entries;
  }

  sharding::DatasetIndex dataset_;
  worker::GroupStore store_;
};

/// Rows of features by the ids of their programs, from one file or several.
class FeatureTable {
 public:
  FeatureTable(const XgboostSettings& settings, const configs::DataSettings& data, const Groups& groups) {
    const std::filesystem::path root = data.root;
    if (!settings.records.empty()) {
      files_ = (root / settings.records).string();
      auto found = models::read_record_rows(files_, root / settings.dags, lines_of(groups));
      for (const int64_t line : found.lines) found.rows.ids.push_back(std::to_string(line));
      add(std::move(found.rows));
    }
    for (const auto& name : settings.features) {
      const auto file = root / name;
      files_ += (files_.empty() ? "" : ", ") + file.string();
      auto rows = settings.rows == BoostedRows::statements ? models::read_statement_rows(file)
                                                           : models::read_loop_features(file);
      if (!tables_.empty() && rows.columns != tables_.front().columns)
        throw DataError("{}: {} features a row, expected {} as in the first file", file.string(), rows.columns,
                        tables_.front().columns);
      if (rows.ids.empty())
        throw DataError("{}: no member ids, id or line, expected one that names each program", file.string());
      add(std::move(rows));
    }
  }

  ProgramRows empty() const {
    ProgramRows rows;
    rows.columns = tables_.front().columns;
    return rows;
  }

  /// Adds candidates of a group as programs of one workload.
  void append(ProgramRows& rows, const data::Group& group, const std::vector<int64_t>& candidates) const {
    const int32_t workload = rows.workload_names.size();
    rows.workload_names.push_back(group.name);
    for (const int64_t c : candidates) {
      const auto& id = group.candidate_ids.empty() ? fmt::format("{}", c) : group.candidate_ids[c];
      const auto found = place_.find(id);
      if (found == place_.end())
        throw DataError("{}: no features of {} ({}), expected all programs of the experiment", files_, id, group.name);
      const auto& [table, program] = found->second;
      const auto features = tables_[table].rows_of(program);
      rows.features.insert(rows.features.end(), features.begin(), features.end());
      rows.row_ptr.push_back(std::ssize(rows.features) / rows.columns);
      rows.workload.push_back(workload);
      rows.runtimes.push_back(group.runtimes[c]);
      rows.ids.push_back(id);
      if (!group.flops.empty()) rows.flops.push_back(group.flops[c]);
    }
  }

 private:
  void add(ProgramRows rows) {
    for (size_t p = 0; p < rows.ids.size(); ++p) place_[rows.ids[p]] = {tables_.size(), static_cast<int64_t>(p)};
    tables_.push_back(std::move(rows));
  }

  /// The candidates that a trial looks at, whose ids are lines of the records.
  static models::RecordLines lines_of(const Groups& groups) {
    models::RecordLines lines;
    groups.for_each([&](sharding::Role, const worker::LoadedGroup& loaded) {
      for (const auto* candidates : {&loaded.train, &loaded.evaluated}) {
        for (const int64_t c : *candidates) {
          const auto& id = loaded.group.candidate_ids.at(c);
          const auto line = parse_number<int64_t>(id);
          if (!line) throw DataError("{}: candidate {}, expected the line of a tuning record", loaded.group.name, id);
          lines.insert(*line);
        }
      }
    });
    return lines;
  }

  std::string files_;
  std::vector<ProgramRows> tables_;
  std::unordered_map<std::string, std::pair<size_t, int64_t>> place_;
};

/// Says what the candidates of a group are worth.
using GroupScorer = std::function<worker::Scores(const data::Group& group, const std::vector<int64_t>& candidates)>;

GroupScorer mean_scorer(const Groups& groups) {
  double sum = 0, count = 0;
  groups.for_each([&](sharding::Role, const worker::LoadedGroup& loaded) {
    for (const int64_t c : loaded.train)
      if (std::isfinite(loaded.group.runtimes[c])) sum += loaded.group.runtimes[c], ++count;
  });
  return [mean = sum / count](const data::Group&, const std::vector<int64_t>& candidates) {
    return worker::Scores{std::vector<double>(candidates.size(), mean), std::vector<double>(candidates.size(), mean)};
  };
}

GroupScorer random_scorer(uint64_t seed) {
  return [seed](const data::Group& group, const std::vector<int64_t>& candidates) {
    worker::Scores scores;
    for (const int64_t c : candidates)
      scores.scores.push_back(random_unit(
          {seed, random_stream::random_scores, checksum_of(std::span(group.name)), static_cast<uint64_t>(c)}));
    return scores;
  };
}

/// `failures`: programs that failed, too.
ProgramRows training_rows(const Groups& groups, const FeatureTable& table, bool held_out, bool failures) {
  auto rows = table.empty();
  groups.for_each([&](sharding::Role role, const worker::LoadedGroup& loaded) {
    if (role != sharding::Role::train) return;
    auto candidates = held_out ? loaded.evaluated : loaded.train;
    if (!failures) std::erase_if(candidates, [&](int64_t c) { return std::isinf(loaded.group.runtimes[c]); });
    table.append(rows, loaded.group, candidates);
  });
  return rows;
}

GroupScorer loop_scorer(const ExperimentEntry& entry, const Trial& trial, const Groups& groups,
                        std::shared_ptr<FeatureTable> table) {
  models::RuntimeSettings settings;
  settings.target = entry.xgboost.target == "flop" ? models::RuntimeTarget::nanoseconds_per_flop
                                                   : models::RuntimeTarget::milliseconds;
  if (entry.xgboost.rounds > 0) settings.rounds = entry.xgboost.rounds;
  settings.booster.seed = trial.seed;
  settings.booster.threads = std::max<int64_t>(1, trial.settings.trainer.threads);
  auto model = std::make_shared<models::RuntimeModel>(models::RuntimeModel::train(
      training_rows(groups, *table, false, false), training_rows(groups, *table, true, false), settings));
  return [model, table = std::move(table)](const data::Group& group, const std::vector<int64_t>& candidates) {
    auto rows = table->empty();
    table->append(rows, group, candidates);
    auto predicted = model->predict(rows);
    return worker::Scores{predicted, predicted};
  };
}

GroupScorer statement_scorer(const ExperimentEntry& entry, const Trial& trial, const Groups& groups,
                             std::shared_ptr<FeatureTable> table) {
  auto settings = models::throughput_preset(entry.xgboost.preset);
  if (entry.xgboost.rounds > 0) settings.rounds = entry.xgboost.rounds;
  settings.booster.seed = trial.seed;
  settings.booster.threads = std::max<int64_t>(1, trial.settings.trainer.threads);
  auto model = std::make_shared<models::ThroughputModel>(
      models::ThroughputModel::train(training_rows(groups, *table, false, true), settings));
  return [model, table = std::move(table)](const data::Group& group, const std::vector<int64_t>& candidates) {
    auto rows = table->empty();
    table->append(rows, group, candidates);
    worker::Scores scores;
    for (const double throughput : model->predict(rows)) scores.scores.push_back(-throughput);
    return scores;
  };
}

/// Labels that are not there cannot be known: of unlabelled groups it says nothing.
GroupScorer ceiling_scorer() {
  return [](const data::Group& group, const std::vector<int64_t>& candidates) {
    if (!group.labelled()) return worker::Scores{std::vector<double>(candidates.size(), 0.0), {}};
    auto means = worker::oracle_runtimes(group, candidates);
    if (means.empty())
      for (const int64_t c : candidates) means.push_back(group.runtimes[c]);
    return worker::Scores{means, means};
  };
}

GroupScorer make_scorer(const ExperimentEntry& entry, const Trial& trial, const Groups& groups) {
  if (entry.kind == EntryKind::mean) return mean_scorer(groups);
  if (entry.kind == EntryKind::random) return random_scorer(trial.seed);
  if (entry.kind == EntryKind::ceiling) return ceiling_scorer();
  auto table = std::make_shared<FeatureTable>(entry.xgboost, trial.settings.data, groups);
  return entry.xgboost.rows == BoostedRows::statements ? statement_scorer(entry, trial, groups, std::move(table))
                                                       : loop_scorer(entry, trial, groups, std::move(table));
}

constexpr int64_t kRounds = 300;

models::BoosterMatrix one_hot_rows(const data::LayoutCandidates& layout, const std::vector<int64_t>& candidates,
                                   int64_t threads) {
  const int64_t columns = layout.row_ptr[layout.configurable()];
  std::vector<float> features(candidates.size() * columns);
  for (size_t i = 0; i < candidates.size(); ++i) {
    float* row = features.data() + i * columns;
    for (int64_t j = 0; j < layout.configurable(); ++j)
      row[layout.row_ptr[j] + layout.codes[candidates[i] * layout.configurable() + j]] = 1;
  }
  return {features, columns, threads};
}

/// Returns the ranks of the candidates' run times, 0 to 1. Equal run times have the mean of their ranks.
std::vector<float> labels_of(const Array<double>& runtimes, const std::vector<int64_t>& candidates) {
  std::vector<double> chosen;
  for (const int64_t candidate : candidates) chosen.push_back(runtimes[candidate]);
  const double last = std::max(1.0, chosen.size() - 1.0);
  std::vector<float> labels;
  for (const double rank : metrics::ranks_of(chosen)) labels.push_back(rank / last);
  return labels;
}

std::string what_differs(const configs::Settings& before, const configs::Settings& now) {
  auto text = coordinator::config_differences(before, now);
  const auto add = [&](const char* name, int64_t a, int64_t b) {
    if (a != b) text += fmt::format("\n  {}: {} -> {}", name, a, b);
  };
  add("trainer.steps", before.trainer.steps, now.trainer.steps);
  add("trainer.epochs", before.trainer.epochs, now.trainer.epochs);
  add("trainer.eval_every", before.trainer.eval_every, now.trainer.eval_every);
  return text.empty()
             ? "\n  the data, parameters of the entry, or settings that the version which trained it did not have"
             : text;
}

/// Tells all ranks what rank 0 found.
TrialState agreed(comm::Communicator& comm, const TrialState& own) {
  const auto bytes = comm.broadcast_bytes(fmt::format("{}{}", own.complete ? 'c' : '-', own.stale ? 's' : '-'), 0);
  TrialState state = own;
  state.complete = bytes[0] == 'c';
  state.stale = bytes[1] == 's';
  return state;
}

/// Boosted trees for one layout graph: a row a candidate, a column for each distinct layout of each configurable node,
/// 1 where the candidate has it. They learn the rank of the training candidates' run times, from 0 for the fastest to
/// 1, and score the evaluated ones. Nothing carries over to another graph: what is there to learn of one graph's
/// layouts alone, without looking at its operators.
worker::Scores score_layouts_by_trees(const worker::LoadedGroup& loaded, const XgboostSettings& settings, uint64_t seed,
                                      int64_t threads) {
  const auto& layout = loaded.group.layout;
  models::BoosterSettings booster_settings;
  booster_settings.base_score = 0.5;
  booster_settings.seed = seed;
  booster_settings.threads = threads;
  auto training = one_hot_rows(layout, loaded.train, threads);
  training.set_labels(labels_of(loaded.group.runtimes, loaded.train));
  models::Booster booster(booster_settings, training);
  const int64_t rounds = settings.rounds > 0 ? settings.rounds : kRounds;
  for (int64_t round = 0; round < rounds; ++round) booster.update(training, round);
  const auto predicted = booster.predict(one_hot_rows(layout, loaded.evaluated, threads));
  return {{predicted.begin(), predicted.end()}, {}};
}

/// Makes the predictions of an entry that is no model of ours (mean, random, ceiling, xgboost) for the candidates that
/// a model with the trial's settings would be measured on, from those that it would be trained on, and writes them to
/// rankings.csv in the trial's folder. Trees over layout codes have none for groups that they did not learn from. One
/// rank alone calls it. Throws DataError, models::ModelError.
void run_baseline_trial(const ExperimentEntry& entry, const Trial& trial) {
  const Groups groups(trial.settings);
  const bool by_graph = entry.kind == EntryKind::xgboost && entry.xgboost.rows == BoostedRows::layout_codes;
  const auto scorer = by_graph ? GroupScorer() : make_scorer(entry, trial, groups);
  const auto threads = std::max<int64_t>(1, trial.settings.trainer.threads);
  worker::Evaluation evaluation;
  groups.for_each([&](sharding::Role role, const worker::LoadedGroup& loaded) {
    if (loaded.evaluated.empty() || (by_graph && role != sharding::Role::train)) return;
    const worker::Scorer own = [&](const worker::LoadedGroup& one, const std::vector<int64_t>& candidates) {
      return by_graph ? score_layouts_by_trees(one, entry.xgboost, trial.seed, threads) : scorer(one.group, candidates);
    };
    evaluation.groups.push_back(worker::evaluate_group(own, worker::set_of(role), loaded, loaded.evaluated));
  });
  std::filesystem::create_directories(trial.folder);
  write_file_atomically(trial.folder / "rankings.csv", worker::rankings_csv(evaluation));
}

}  // namespace

coordinator::DataFingerprints TrialStates::fingerprints(const configs::Settings& settings) {
  configs::Settings chosen;
  chosen.data = settings.data;
  chosen.data.train_fraction = 1;
  chosen.sampler.max_segment_nodes = settings.sampler.max_segment_nodes;
  chosen.segments = settings.segments;
  chosen.shard = settings.shard;
  const auto key = configs::to_yaml(chosen);
  const auto found = fingerprints_.find(key);
  if (found != fingerprints_.end()) return found->second;
  const auto index = sharding::make_dataset_index(settings);
  return fingerprints_[key] = {index.fingerprint(), index.training_fingerprint()};
}

TrialState TrialStates::find(const ExperimentEntry& entry, const Trial& trial, bool overwrite) {
  TrialState state;
  const auto data = fingerprints(trial.settings);
  state.key = record_key(entry, trial.settings, data.all);
  state.training = training_record_key(entry, trial.settings, data.training);
  const auto record = read_trial_record(trial.folder);
  if (record && record->key == state.key) {
    state.complete = true;
    state.seconds = record->seconds;
    return state;
  }
  state.trained = record && record->training == state.training;
  if (state.trained) return state;
  std::string differences;
  const auto config = trial.folder / "config.yaml";
  const bool has_config = entry.kind == EntryKind::model && files().exists(config);
  if (has_config) {
    const auto before = configs::settings_of_run(trial.folder);
    if (record || training_key(entry, before) != training_key(entry, trial.settings))
      differences = what_differs(before, trial.settings);
  } else if (record) {
    differences = "\n  its settings, or the data";
  }
  state.stale = !differences.empty();
  if (state.stale && !overwrite)
    throw configs::SettingsError(
        "{}: holds a trial with other settings:{}\n"
        "give another folder with --out, or repeat such trials with --overwrite",
        trial.folder.string(), differences);
  return state;
}

bool run_trials(const Experiment& experiment, const std::vector<Trial>& trials, bool overwrite,
                comm::Communicator& comm) {
  TrialStates states;
  const bool root = comm.rank() == 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    const auto& trial = trials[i];
    const auto& entry = experiment.entries[trial.entry];
    TrialState state;
    comm::run_together(comm, [&] {
      if (root) state = states.find(entry, trial, overwrite);
    });
    state = agreed(comm, state);
    if (root)
      print_message("trial {} of {}: {}{}\n", i + 1, trials.size(), describe(experiment, trial),
                    state.complete  ? ": complete"
                    : state.trained ? ": trained, but evaluated on other test groups"
                                    : "");
    if (state.complete) continue;
    // Before its rankings change: what is interrupted must not look like what was complete.
    if (root && (state.stale || state.trained)) std::filesystem::remove(trial.folder / "trial.json");
    std::optional<coordinator::RunLock> lock;
    comm::run_together(comm, [&] {
      if (root) lock.emplace(trial.folder);
    });
    const coordinator::ResourceMeter meter;
    if (entry.kind == EntryKind::model) {
      auto settings = trial.settings;
      settings.run.overwrite = state.stale;
      std::vector<worker::NamedEvaluation> rows;
      if (!worker::train_model(settings, comm, {}, rows)) return false;
    }
    comm::run_together(comm, [&] {
      if (!root) return;
      if (entry.kind != EntryKind::model) {
        run_baseline_trial(entry, trial);
        coordinator::write_run_resources(trial.folder, {meter.seconds(), meter.peak_memory(), meter.peak_memory()});
      }
      write_trial_record(trial.folder, {state.key, state.training, meter.seconds()});
    });
  }
  return true;
}

}  // namespace foretime::experiments
