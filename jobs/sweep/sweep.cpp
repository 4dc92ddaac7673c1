#include "jobs/sweep/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "jobs/error.h"
#include "jobs/sweep/sweep_document.h"

namespace foretime::jobs {
namespace {

using configs::YamlEntry;

void flatten(const YamlEntry& entry, const std::string& origin, std::vector<SettingOverride>& leaves) {
  if (!entry.node.IsMap()) {
    leaves.push_back({entry.key, override_text(entry), entry});
    return;
  }
  for (const YamlEntry& item : items_of(entry, origin, entry.key.empty() ? "" : entry.key + ".", {}))
    flatten(item, origin, leaves);
}

/// Jobs of one sweep, checked before anything of that size is allocated.
constexpr int64_t kMostJobs = 100000;

std::string list_of(const Parameters& parameters) {
  std::string text;
  for (const auto& [key, value] : parameters) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

class Expansion {
 public:
  explicit Expansion(SweepDocument document) : document_(std::move(document)) {}

  Sweep run() {
    check_owned_keys();
    const int64_t configurations = count_configurations();
    const auto seeds = static_cast<int64_t>(std::max<size_t>(1, document_.seeds.size()));
    const int64_t jobs_of_one = seeds * static_cast<int64_t>(1 + document_.then.size());
    if (configurations > kMostJobs / jobs_of_one) {
      throw SweepError(
          "{}: found a sweep of {} configurations with {} jobs each, expected at most {} jobs: set run_cap, or sweep "
          "fewer values",
          document_.origin, configurations, jobs_of_one, kMostJobs);
    }
    prepare_for_queue(document_.base);
    base_yaml_ = configs::to_yaml(document_.base);
    describe(configurations * seeds);
    if (document_.method == "bayes") check_deferred();
    for (int64_t i = 0; i < configurations; ++i) {
      if (document_.method == "bayes") {
        add_trial(i, {}, document_.base);
        continue;
      }
      Parameters parameters = document_.method == "grid" ? grid_trial(document_.space, i)
                                                         : random_trial(document_.space, document_.seed, i);
      for (int64_t s = 0; s < seeds; ++s) {
        if (!document_.seeds.empty())
          parameters["trainer.seed"] = fmt::format("{}", document_.seeds[static_cast<size_t>(s)]);
        const int64_t trial = i * seeds + s;
        add_trial(trial, parameters, settings_of(parameters, fmt::format("trial {}", trial)));
      }
    }
    return std::move(sweep_);
  }

 private:
  [[noreturn]] void fail_at(const std::string& key, const std::string& text) const {
    const auto place = document_.places.find(key);
    throw SweepError("{}: {}", place == document_.places.end() ? document_.origin : place->second, text);
  }

  void check_owned_keys() const {
    for (const ParameterSpace& p : document_.space) {
      if (p.key.starts_with("run.") || p.key == "data.allowed_roots")
        fail_at(p.key, fmt::format("{}: cannot be swept: the agent sets it for each job", p.key));
    }
  }

  int64_t count_configurations() const {
    if (document_.method == "grid") {
      const auto size = grid_size(document_.space);
      if (size) return std::min(*size, document_.run_cap.value_or(*size));
      for (const ParameterSpace& p : document_.space) {
        if (!grid_size({p}))
          fail_at(p.key, fmt::format("{}: found distribution {}, which has no grid; give values, or integers min and "
                                     "max, or use method random",
                                     p.key, to_string(p.distribution)));
      }
    }
    if (!document_.run_cap) {
      throw SweepError(
          "{}: run_cap: is missing; {} search goes on for ever, so say how many trials (run_cap: 20 in the file, or "
          "run_cap=20 on the command line)",
          document_.origin, document_.method);
    }
    return *document_.run_cap;
  }

  /// The sweep's own record and its id, which is that of everything that shapes its jobs.
  void describe(int64_t trials) {
    SweepSpec& spec = sweep_.spec;
    spec.name = document_.name;
    spec.method = document_.method;
    spec.definition = to_json(document_.space);
    spec.metric = document_.metric;
    spec.maximize = document_.maximize;
    spec.trials = trials;
    spec.seed = document_.seed;
    spec.halving = document_.halving;
    nlohmann::json then = nlohmann::json::array();
    for (const FollowUp& job : document_.then) then.push_back({to_string(job.kind), job.settings});
    const nlohmann::json content = {spec.method, spec.definition,    spec.metric,      spec.maximize, spec.trials,
                                    spec.seed,   spec.halving.rungs, spec.halving.eta, base_yaml_,    document_.seeds,
                                    then};
    spec.id = content_id(content.dump());
    if (spec.definition.size() > Limits::kSettings)
      throw SweepError("{}: parameters: found {} bytes, expected at most {}", document_.origin, spec.definition.size(),
                       Limits::kSettings);
    sweep_.space = document_.space;
    sweep_.warnings = document_.warnings;
    const configs::TrainerSettings& trainer = document_.base.trainer;
    if (spec.halving.enabled() && trainer.eval_every > 0 && trainer.epochs == 0 &&
        trainer.steps / trainer.eval_every <= spec.halving.rungs.front()) {
      sweep_.warnings.push_back(
          fmt::format("{}: early_terminate: the first rung is at evaluation {}, and a trial has {} (trainer.steps / "
                      "trainer.eval_every): no trial is stopped early",
                      document_.origin, spec.halving.rungs.front(), trainer.steps / trainer.eval_every));
    }
  }

  configs::Settings settings_of(const Parameters& parameters, const std::string& what) const {
    configs::Settings settings = document_.base;
    for (const auto& [key, value] : parameters) {
      try {
        configs::apply_override(settings, key, value);
      } catch (const configs::SettingsError& error) {
        fail_at(key, fmt::format("{}: {}", what, error.what()));
      }
    }
    const std::string conflict = configs::find_conflict(settings);
    if (!conflict.empty()) throw SweepError("{}: {} ({}): {}", document_.origin, what, list_of(parameters), conflict);
    if (document_.halving.enabled() && settings.trainer.eval_every == 0) {
      throw SweepError(
          "{}: {}: trainer.eval_every: found 0, expected > 0: early_terminate compares trials at their "
          "evaluations; set "
          "it under overrides or as trainer.eval_every=… on the command line",
          document_.origin, what);
    }
    prepare_for_queue(settings);
    return settings;
  }

  /// Each parameter at its ends and at each of its values, while the others are at their lower end, middle and upper
  /// end. Bounds of settings are intervals and values rise with u, so what holds at the ends holds between.
  void check_deferred() const {
    for (const ParameterSpace& p : document_.space) {
      std::vector<std::string> values = p.values;
      if (values.empty()) values = {value_at(p, 0), value_at(p, 0.5), value_at(p, 1)};
      for (const double others : {0.0, 0.5, 1.0}) {
        Parameters parameters;
        for (const ParameterSpace& other : document_.space) parameters[other.key] = value_at(other, others);
        for (const std::string& value : values) {
          parameters[p.key] = value;
          settings_of(parameters, "a trial");
        }
      }
    }
  }

  void add_trial(int64_t trial, const Parameters& parameters, const configs::Settings& settings) {
    JobSpec job{.kind = JobKind::train,
                .name = fmt::format("{}-{}", document_.name, trial),
                .sweep = sweep_.spec.id,
                .trial = trial,
                .deferred = document_.method == "bayes"};
    job.settings = job.deferred ? base_yaml_ : configs::to_yaml(settings);
    job.parameters = parameters;
    job.metric = document_.metric;
    job.maximize = document_.maximize;
    job.resources = document_.resources;
    job.priority = document_.priority;
    job.max_attempts = document_.max_attempts;
    add(job);
    std::vector<std::string> after = {sweep_.jobs.back().id};
    for (const FollowUp& follow : document_.then) {
      JobSpec next = job;
      next.kind = follow.kind;
      next.name = fmt::format("{}-{}", job.name, to_string(follow.kind));
      next.settings = follow.settings;
      next.parameters.clear();
      next.deferred = false;
      next.after = after;
      if (follow.kind == JobKind::export_) next.resources = {};  // it copies files
      add(next);
      after.push_back(sweep_.jobs.back().id);
    }
  }

  void add(JobSpec job) {
    const size_t size = nlohmann::json(job.parameters).dump().size();
    if (size > Limits::kParameters)
      throw SweepError("{}: {}: found {} bytes of parameters, expected at most {}", document_.origin, job.name, size,
                       Limits::kParameters);
    if (job.settings.size() > Limits::kSettings)
      throw SweepError("{}: {}: found {} bytes of settings, expected at most {}: shorten its lists of files",
                       document_.origin, job.name, job.settings.size(), Limits::kSettings);
    job.id = job_id(job);
    sweep_.jobs.push_back(std::move(job));
  }

  SweepDocument document_;
  std::string base_yaml_;
  Sweep sweep_;
};

/// No run has more evaluations, and no sweep more rungs.
constexpr double kMostIterations = 1e9;
constexpr size_t kMostRungs = 64;

void check_eta(double eta) {
  if (!(eta > 1) || !std::isfinite(eta)) throw SweepError("eta: found {}, expected > 1", eta);
}

}  // namespace

std::vector<SettingOverride> flatten_overrides(const YamlEntry& map, const std::string& origin) {
  std::vector<SettingOverride> leaves;
  for (const YamlEntry& item : items_of(map, origin, "", {})) flatten(item, origin, leaves);
  return leaves;
}

void check_overrides(const std::vector<SettingOverride>& overrides) {
  configs::Settings probe;
  for (const SettingOverride& item : overrides) {
    try {
      configs::apply_override(probe, item.key, item.value);
    } catch (const configs::SettingsError& error) {
      throw SweepError("{}: {}", item.entry.place, error.what());
    }
  }
}

void prepare_for_queue(configs::Settings& settings) {
  settings.run = {};
  settings.data.allowed_roots.clear();
  if (settings.checkpoint.every_steps == 0) settings.checkpoint.every_steps = settings.trainer.eval_every;
}

bool has_key(const std::filesystem::path& file, const std::vector<std::string>& keys) {
  try {
    for (const auto& item : configs::parse_yaml(configs::read_yaml_text(file.string()), file.string())) {
      if (item.first.IsScalar() && std::find(keys.begin(), keys.end(), item.first.Scalar()) != keys.end()) return true;
    }
  } catch (const configs::SettingsError&) {
    // Whoever reads it as settings says what is wrong with it.
  }
  return false;
}

bool is_sweep_file(const std::filesystem::path& file) { return has_key(file, {"method", "parameters"}); }

JobSpec single_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const std::string& name) {
  configs::Settings settings = configs::load_settings(file, overrides);
  prepare_for_queue(settings);
  JobSpec spec{.kind = JobKind::train, .name = name.empty() ? file.stem().string() : name};
  if (spec.name.size() > Limits::kName)
    throw SweepError("name: found {} bytes, expected at most {}", spec.name.size(), Limits::kName);
  spec.settings = configs::to_yaml(settings);
  if (spec.settings.size() > Limits::kSettings) {
    throw SweepError("{}: found {} bytes of settings, expected at most {}: shorten its lists of files", file.string(),
                     spec.settings.size(), Limits::kSettings);
  }
  spec.metric = settings.trainer.metric;
  spec.maximize = settings.trainer.metric_goal == configs::Goal::maximize;
  try {
    spec.id = job_id(spec);
  } catch (const nlohmann::json::exception&) {
    throw SweepError("{}: found text that is no UTF-8", file.string());
  }
  return spec;
}

configs::Settings trial_settings(const JobSpec& spec, const Parameters& parameters) {
  const std::string origin = "settings of job " + (spec.name.empty() ? spec.id : spec.name);
  configs::Settings settings = configs::parse_settings(spec.settings, origin);
  for (const auto& [key, value] : parameters) configs::apply_override(settings, key, value);
  prepare_for_queue(settings);
  return configs::parse_settings(configs::to_yaml(settings), origin);  // contradictions between keys
}

Sweep parse_sweep(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                  const std::vector<std::string>& overrides) {
  try {
    return Expansion(read_document(yaml, origin, folder, overrides)).run();
  } catch (const nlohmann::json::exception&) {
    throw SweepError("{}: found text that is no UTF-8", origin);
  }
}

Sweep load_sweep(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return parse_sweep(configs::read_yaml_text(file.string()), file.string(), file.parent_path(), overrides);
}

HalvingRule halving_from_min(int64_t min_iter, double eta) {
  check_eta(eta);
  if (min_iter < 1) throw SweepError("min_iter: found {}, expected at least 1", min_iter);
  HalvingRule rule{{}, eta};
  for (double rung = static_cast<double>(min_iter); rung <= kMostIterations && rule.rungs.size() < kMostRungs;
       rung *= eta) {
    const auto whole = static_cast<int64_t>(rung);
    if (rule.rungs.empty() || whole > rule.rungs.back()) rule.rungs.push_back(whole);
  }
  return rule;
}

HalvingRule halving_from_max(int64_t max_iter, int64_t brackets, double eta) {
  check_eta(eta);
  if (max_iter < 1) throw SweepError("max_iter: found {}, expected at least 1", max_iter);
  if (brackets < 1) throw SweepError("s: found {}, expected at least 1", brackets);
  HalvingRule rule{{}, eta};
  double rung = static_cast<double>(max_iter);
  for (int64_t k = 1; k <= brackets && rule.rungs.size() < kMostRungs; ++k) {
    rung /= eta;
    if (rung < 1) break;
    const auto whole = static_cast<int64_t>(rung);
    if (rule.rungs.empty() || whole < rule.rungs.front()) rule.rungs.insert(rule.rungs.begin(), whole);
  }
  if (rule.rungs.empty()) {
    throw SweepError(
        "max_iter: found {} with eta {}, which leaves no rung of at least one evaluation; raise max_iter, "
        "lower eta, or use min_iter",
        max_iter, eta);
  }
  return rule;
}

}  // namespace foretime::jobs
