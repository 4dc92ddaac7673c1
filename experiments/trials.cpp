#include "experiments/trials.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "configs/load.h"
#include "configs/metrics.h"
#include "coordinator/checkpoint_store.h"
#include "data/frontends/loops/loop_graph.h"
#include "experiments/document_part.h"
#include "jobs/error.h"
#include "sharding/dataset_index.h"

namespace foretime::experiments {
namespace {

namespace fs = std::filesystem;

/// A name below `root` travels with jobs to machines whose data lie elsewhere.
std::string below(const fs::path& file, const fs::path& root) {
  const auto relative = file.lexically_normal().lexically_relative(root.lexically_normal());
  return relative.empty() || *relative.begin() == ".." ? file.string() : relative.string();
}

constexpr const char* kRecord = "trial.json";
constexpr uint64_t kMostRecordBytes = 1 << 20;

/// Checks that all entries are evaluated on the same candidates. Throws ExperimentError that names the differing
/// setting.
void check_measured(const Experiment& experiment, const ExperimentEntry& entry, const configs::DataSettings& own) {
  const auto& base = experiment.base.data;
  const auto need = [&](const char* name, const auto& found, const auto& expected) {
    if (found != expected)
      throw ExperimentError(
          "{}: {}: {}: found {}, expected {} as the experiment has it: entries are measured on the same candidates; "
          "set it under overrides",
          experiment.origin, entry.label, name, found, expected);
  };
  need("data.format", word_of(own.format), word_of(base.format));
  need("data.max_eval_candidates", own.max_eval_candidates, base.max_eval_candidates);
  if (experiment.folds.count > 0) {
    need("data.root", own.root, base.root);
    return;
  }
  need("data.eval_indices", own.eval_indices, base.eval_indices);
  if (std::find(experiment.sets.begin(), experiment.sets.end(), "holdout") != experiment.sets.end())
    need("data.holdout", own.holdout, base.holdout);
}

/// The settings of an entry, but for what the trial chooses.
configs::Settings settings_of(const Experiment& experiment, const ExperimentEntry& entry) {
  auto settings = entry.own ? *entry.own : experiment.base;
  apply_all(settings, entry.set);
  apply_all(settings, experiment.last);
  check_measured(experiment, entry, settings.data);
  settings.trainer.baselines.clear();
  settings.checkpoint.resume = "auto";
  return settings;
}

std::string folder_name(const ExperimentEntry& entry, const Trial& trial) {
  auto name = fmt::format("{}/fraction-{}/seed-{}", entry.slug(), trial.fraction, trial.seed);
  if (trial.fold >= 0) name += fmt::format("/fold-{}", trial.fold);
  return name;
}

/// Returns the parameters that the leaderboard shows. Entries with separate settings files differ in too many settings
/// to list.
jobs::Parameters parameters_of(const ExperimentEntry& entry, const Trial& trial) {
  jobs::Parameters parameters;
  if (entry.own) {
    parameters["model.type"] = word_of(trial.settings.model.type);
    parameters["model.tile_join"] = word_of(trial.settings.model.tile_join);
    parameters["loss.type"] = word_of(trial.settings.loss.type);
    parameters["sampler.max_segment_nodes"] = fmt::format("{}", trial.settings.sampler.max_segment_nodes);
  }
  for (const auto& item : entry.set) parameters[item.key] = item.value;
  parameters["data.train_fraction"] = fmt::format("{}", trial.fraction);
  parameters["trainer.seed"] = fmt::format("{}", trial.seed);
  return parameters;
}

/// Returns the folder of the attempt that ended the job (jobs/agent/agent_command.h), that of its newest lease. Its
/// checkpoint may be in the folder of an earlier attempt if this one added nothing.
fs::path attempt_of(const jobs::JobRecord& job, const fs::path& runs) {
  const auto folder = runs / job.spec.id;
  const auto name = fmt::format("attempt-{}", job.fence);
  for (const auto& path : files().list(folder)) {
    const auto own = path.filename().string();
    if ((own == name || own.starts_with(name + "-")) && foreign_exists(folder, fs::path(own) / "rankings.csv"))
      return path;
  }
  throw jobs::JobsError("job {} ({}): found no rankings.csv in {}; is {} the run root of the agents?", job.spec.id,
                        job.spec.name, (folder / name).string(), runs.string());
}

/// Holds the files on which one fold trains and tests, relative to data.root if they are below it.
struct Fold {
  std::vector<std::string> train, test;
};

/// The experiment's folds, by its FoldRule over the groups sorted by name; empty where it has none. Reads headers.
/// Throws DataError where groups lie in packed collections, share a name, or are fewer than folds.
std::vector<Fold> make_folds(const Experiment& experiment) {
  const auto& rule = experiment.folds;
  if (rule.count == 0) return {};
  const auto& data = experiment.base.data;
  const auto groups =
      data::list_groups(rule.groups, data.root, sharding::candidate_kind(data.format), {}, data::make_featurizer(data));
  if (std::ssize(groups) < rule.count)
    throw DataError("{}: folds: found {} groups below {}, expected at least the {} folds", experiment.origin,
                    groups.size(), data.root, rule.count);
  std::vector<Fold> folds(rule.count);
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto& group = groups[g];
    if (group.member >= 0)
      throw DataError(
          "{}: a packed collection, whose groups cannot lie in different folds; "
          "name the .npz files that it was made from under folds",
          group.file.string());
    if (group.name != data::plain_name(group.name))
      throw DataError("{}: another collection has a group of this name; folds need groups with different names",
                      group.file.string());
    for (size_t f = 0; f < folds.size(); ++f)
      (g % folds.size() == f ? folds[f].test : folds[f].train).push_back(below(group.file, data.root));
  }
  return folds;
}

/// Makes a trial's settings those of a fold: its files, no validation groups, nothing held out. Without either the last
/// step's model counts, and trainer.metric becomes that of the test set, which chooses nothing. Throws ExperimentError
/// where early stopping asks for more.
void apply_fold(const Fold& fold, configs::Settings& settings, const std::string& origin) {
  settings.data.train = fold.train;
  settings.data.test = fold.test;
  settings.data.valid.clear();
  settings.data.eval_indices.clear();
  settings.data.holdout = 0;
  auto& trainer = settings.trainer;
  if (trainer.early_stop.patience > 0)
    throw ExperimentError("{}: trainer.early_stop.patience: found {}: folds leave no groups to stop by; set it to 0",
                          origin, trainer.early_stop.patience);
  trainer.metric = "test/" + trainer.metric.substr(trainer.metric.find('/') + 1);
}

std::string key_of(const ExperimentEntry& entry, const configs::Settings& settings, bool measured) {
  auto own = settings;
  const configs::Settings defaults;
  own.run = defaults.run;
  const auto gradient_dtype = own.comm.gradient_dtype;
  own.comm = defaults.comm;
  own.comm.gradient_dtype = gradient_dtype;
  own.checkpoint = defaults.checkpoint;
  own.checkpoint.keep_best = settings.checkpoint.keep_best;
  own.data.allowed_roots.clear();
  own.data.overlap = defaults.data.overlap;
  own.data.read_threads = defaults.data.read_threads;
  own.trainer.threads = defaults.trainer.threads;
  own.trainer.device = defaults.trainer.device;
  own.trainer.log_every = defaults.trainer.log_every;
  own.trainer.metric_goal = configs::maximizes(settings.trainer) ? configs::Goal::maximize : configs::Goal::minimize;
  own.trainer.eval_states = defaults.trainer.eval_states;
  if (entry.kind != EntryKind::model) {  // which candidates, and no more
    own.model = defaults.model;
    own.loss = defaults.loss;
    own.optimizer = defaults.optimizer;
    own.sampler = defaults.sampler;
    own.segments = defaults.segments;
    const auto seed = own.trainer.seed;
    own.trainer = defaults.trainer;
    own.trainer.seed = seed;
  }
  auto key = configs::word_of(entry.kind) + "\n" + configs::to_yaml(own);
  if (entry.kind == EntryKind::xgboost) {
    const auto& boosted = entry.xgboost;
    if (measured) key += fmt::format("{} {} {} ", fmt::join(boosted.features, " "), boosted.records, boosted.dags);
    key += fmt::format("{} {} {} {}\n", boosted.rows == BoostedRows::statements, boosted.target, boosted.preset,
                       boosted.rounds);
    if (boosted.rows == BoostedRows::layout_codes) key += "layout codes\n";
  }
  return key;
}

}  // namespace

std::vector<Trial> trials_of(const Experiment& experiment, const fs::path& out) {
  std::vector<Trial> trials;
  const auto folds = make_folds(experiment);
  const auto count = std::max<int64_t>(1, std::ssize(folds));
  auto fractions = experiment.fractions;
  std::reverse(fractions.begin(), fractions.end());
  for (const uint64_t seed : experiment.seeds) {
    for (const double fraction : fractions) {
      for (size_t e = 0; e < experiment.entries.size(); ++e) {
        const auto& entry = experiment.entries[e];
        for (int64_t f = 0; f < count; ++f) {
          Trial trial{e, fraction, seed, settings_of(experiment, entry), {}, folds.empty() ? -1 : f};
          trial.settings.data.train_fraction = fraction;
          trial.settings.trainer.seed = seed;
          if (!folds.empty()) apply_fold(folds[f], trial.settings, experiment.origin);
          auto conflict = configs::find_conflict(trial.settings);
          if (conflict.empty() && entry.kind == EntryKind::model)
            conflict = configs::find_metric_conflict(trial.settings, /*needed=*/false);
          if (!conflict.empty()) throw ExperimentError("{}: {}: {}", experiment.origin, entry.label, conflict);
          trial.folder = out / "trials" / folder_name(entry, trial);
          trial.settings.run.directory = trial.folder.string();
          trials.push_back(std::move(trial));
        }
      }
    }
  }
  return trials;
}

std::string describe(const Experiment& experiment, const Trial& trial) {
  auto text = fmt::format("{}, {:.4g} % of the training data, seed {}", experiment.entries[trial.entry].label,
                          100 * trial.fraction, trial.seed);
  if (trial.fold >= 0) text += fmt::format(", fold {}", trial.fold);
  return text;
}

std::string trial_key(const ExperimentEntry& entry, const configs::Settings& settings) {
  return key_of(entry, settings, /*measured=*/true);
}

std::string training_key(const ExperimentEntry& entry, const configs::Settings& settings) {
  auto own = settings;
  own.data.test.clear();
  return key_of(entry, own, /*measured=*/false);
}

std::string record_key(const ExperimentEntry& entry, const configs::Settings& settings, uint64_t data_fingerprint) {
  return jobs::content_id(fmt::format("{}{:016x}", trial_key(entry, settings), data_fingerprint));
}

std::string training_record_key(const ExperimentEntry& entry, const configs::Settings& settings,
                                uint64_t training_fingerprint) {
  return jobs::content_id(fmt::format("{}{:016x}", training_key(entry, settings), training_fingerprint));
}

std::optional<TrialRecord> read_trial_record(const fs::path& folder) {
  const auto text = read_foreign(folder, kRecord, kMostRecordBytes);
  if (!text || !foreign_exists(folder, "rankings.csv")) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  try {
    return TrialRecord{json.at("key").get<std::string>(), json.at("training").get<std::string>(),
                       json.at("seconds").get<double>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void write_trial_record(const fs::path& folder, const TrialRecord& record) {
  const nlohmann::json json = {{"key", record.key}, {"training", record.training}, {"seconds", record.seconds}};
  write_file_atomically(folder / kRecord, json.dump(2) + "\n");
}

jobs::Sweep sweep_of(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Resources& resources,
                     int64_t priority) {
  jobs::Sweep sweep;
  std::string content = "experiment\n";
  for (const auto& trial : trials) {
    const auto& entry = experiment.entries[trial.entry];
    if (entry.kind != EntryKind::model) continue;
    auto settings = trial.settings;
    jobs::prepare_for_queue(settings);
    jobs::JobSpec job;
    job.name = fmt::format("{}/{}", experiment.full_name(), folder_name(entry, trial));
    job.trial = sweep.jobs.size();
    job.settings = configs::to_yaml(settings);
    job.parameters = parameters_of(entry, trial);
    job.metric = settings.trainer.metric;
    job.maximize = configs::maximizes(settings.trainer);
    if (const auto conflict = configs::find_metric_conflict(settings, /*needed=*/true); !conflict.empty())
      throw ExperimentError("{}: {}: {}", experiment.origin, entry.label, conflict);
    job.resources = resources;
    job.priority = priority;
    content += job.settings;
    sweep.jobs.push_back(std::move(job));
  }
  if (sweep.jobs.empty())
    throw ExperimentError("{}: found no entry of kind model, and only these run as jobs", experiment.origin);
  auto& spec = sweep.spec;
  spec.id = jobs::content_id(content);
  spec.name = experiment.full_name();
  spec.method = "grid";
  spec.definition = jobs::to_json(jobs::SearchSpace{});
  spec.metric = sweep.jobs.front().metric;
  spec.maximize = sweep.jobs.front().maximize;
  spec.trials = sweep.jobs.size();
  for (auto& job : sweep.jobs) {
    job.sweep = spec.id;
    job.id = jobs::job_id(job);
  }
  return sweep;
}

Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::QueueReader& reader, const fs::path& runs) {
  std::vector<std::string> ids;
  for (const auto& spec : sweep.jobs) ids.push_back(spec.id);
  std::map<std::string, jobs::JobRecord> records;
  for (auto& record : reader.jobs(ids)) records[record.spec.id] = std::move(record);
  Collection collection;
  size_t next = 0;
  for (size_t t = 0; t < trials.size(); ++t) {
    if (experiment.entries[trials[t].entry].kind != EntryKind::model) continue;
    const auto found = records.find(sweep.jobs[next++].id);
    if (found == records.end()) ++collection.others["not submitted"];
    else if (!found->second.unreadable.empty()) ++collection.others["unreadable"];
    else if (found->second.state != jobs::JobState::succeeded) ++collection.others[to_string(found->second.state)];
    else collection.trials.push_back({t, attempt_of(found->second, runs), found->second.seconds});
  }
  return collection;
}

}  // namespace foretime::experiments
