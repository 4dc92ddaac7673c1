#include "jobs/sweep/sweep.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "configs/load.h"
#include "configs/metrics.h"
#include "jobs/error.h"
#include "jobs/sweep/program_trial.h"
#include "jobs/sweep/sweep_document.h"

namespace foretime::jobs {
namespace {

/// Resets the settings that the agent chooses to their defaults.
void leave_to_the_agent(configs::Settings& settings) {
  settings.run = {};
  settings.data.allowed_roots.clear();
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

  /// All jobs were checked; `expansion` makes them when they are asked for.
  static SweepPlan run(const std::shared_ptr<Expansion>& expansion) {
    const int64_t count = expansion->check();
    return {expansion->sweep_, count, [expansion](const SweepPlan::Take& take) { expansion->each_job(take); }};
  }

  void each_job(const SweepPlan::Take& take) const {
    for (int64_t i = 0; i < configurations_; ++i) {
      auto parameters = parameters_of(i);
      for (int64_t s = 0; s < seeds(); ++s) {
        set_seed(parameters, s);
        make_jobs(i * seeds() + s, parameters, take);
      }
    }
  }

 private:
  int64_t seeds() const { return std::max<size_t>(1, document_.seeds.size()); }

  /// Returns the parameters of a configuration; empty if an agent decides them.
  Parameters parameters_of(int64_t configuration) const {
    if (document_.method == "bayes") return {};
    return document_.method == "grid" ? grid_trial(document_.space, configuration)
                                      : random_trial(document_.space, document_.seed, configuration);
  }
  void set_seed(Parameters& parameters, int64_t s) const {
    if (!document_.seeds.empty() && document_.method != "bayes")
      parameters["trainer.seed"] = fmt::format("{}", document_.seeds[s]);
  }

  /// Returns how many jobs there are.
  int64_t check() {
    check_owned_keys();
    const int64_t configurations = count_configurations();
    const int64_t jobs_of_one = seeds() * (1 + std::ssize(document_.then));
    if (configurations > kMostJobs / jobs_of_one)
      throw SweepError(
          "{}: found a sweep of {} configurations with {} jobs each, expected at most {} jobs: "
          "set run_cap, or sweep fewer values",
          document_.origin, configurations, jobs_of_one, kMostJobs);
    configurations_ = configurations;
    leave_to_the_agent(document_.base);
    describe(configurations * seeds());
    configs::Variation variation(document_.base);
    const bool of_settings = !document_.program;
    if (document_.method == "bayes" && of_settings) check_deferred(variation);
    for (int64_t i = 0; i < configurations; ++i) {
      auto parameters = parameters_of(i);
      for (int64_t s = 0; s < seeds(); ++s) {
        const int64_t trial = i * seeds() + s;
        set_seed(parameters, s);
        check_size(trial, parameters);
        if (trial == 0) make_jobs(trial, parameters, [](const JobSpec&) {});  // all trials are followed by the same
        if (document_.method != "bayes" && of_settings)
          check_settings(variation, parameters, fmt::format("trial {}", trial));
      }
    }
    return configurations * jobs_of_one;
  }

  [[noreturn]] void fail_at(const std::string& key, const std::string& text) const {
    const auto place = document_.places.find(key);
    throw SweepError("{}: {}", place == document_.places.end() ? document_.origin : place->second, text);
  }

  void check_owned_keys() const {
    if (document_.program) return;
    for (const ParameterSpace& p : document_.space)
      if (p.key.starts_with("run.") || p.key == "data.allowed_roots")
        fail_at(p.key, fmt::format("{}: cannot be swept: the agent sets it for each job", p.key));
  }

  int64_t count_configurations() const {
    if (document_.method == "grid") {
      const auto size = grid_size(document_.space);
      if (size) return std::min(*size, document_.run_cap.value_or(*size));
      for (const ParameterSpace& p : document_.space)
        if (!grid_size({p}))
          fail_at(p.key, fmt::format("{}: found distribution {}, which has no grid; "
                                     "give values, or integers min and max, or use method random",
                                     p.key, to_string(p.distribution)));
    }
    if (!document_.run_cap)
      throw SweepError(
          "{}: run_cap: is missing; {} search has no end, set the number of trials (run_cap: "
          "20 in the file, or run_cap=20 on the command line)",
          document_.origin, document_.method);
    return *document_.run_cap;
  }

  /// Makes the sweep's record and its id. The number of trials is not in the id, so that a sweep can grow.
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
    spec.settings = document_.program ? to_settings(*document_.program) : configs::to_yaml(document_.base);
    check_size("settings", spec.settings);
    auto prepared = document_.base;
    prepare_for_queue(prepared);
    const auto trained = document_.program ? spec.settings : configs::to_yaml(prepared);
    nlohmann::json then = nlohmann::json::array();
    for (const FollowUp& job : document_.then) then.push_back({to_string(job.kind), job.settings});
    const nlohmann::json content = {spec.method,        spec.definition,  spec.metric, spec.maximize,   spec.seed,
                                    spec.halving.rungs, spec.halving.eta, trained,     document_.seeds, then};
    spec.id = content_id(content.dump());
    if (spec.definition.size() > Limits::kSettings)
      throw SweepError("{}: parameters: found {} bytes, expected at most {}", document_.origin, spec.definition.size(),
                       Limits::kSettings);
    sweep_.space = document_.space;
    sweep_.warnings = document_.warnings;
    if (const auto distinct = grid_size(document_.space); distinct && document_.run_cap.value_or(0) > *distinct)
      sweep_.warnings.push_back(fmt::format(
          "{}: run_cap: found {}, and the parameters have {} combinations: {}", document_.origin, *document_.run_cap,
          *distinct, document_.method == "grid" ? "there are no more trials" : "later trials repeat earlier ones"));
    const configs::TrainerSettings& trainer = document_.base.trainer;
    if (!document_.program && spec.halving.enabled() && trainer.eval_every > 0 && trainer.epochs == 0 &&
        trainer.steps / trainer.eval_every <= spec.halving.rungs.front()) {
      sweep_.warnings.push_back(
          fmt::format("{}: early_terminate: the first rung is at evaluation {}, and a trial has {} (trainer.steps / "
                      "trainer.eval_every): no trial is stopped early",
                      document_.origin, spec.halving.rungs.front(), trainer.steps / trainer.eval_every));
    }
  }

  /// Returns a conflict about the metric by which trials are compared, or trainer.metric, which it sets.
  std::string metric_conflict(configs::Settings& settings) const {
    auto conflict = configs::find_metric_conflict(settings, /*needed=*/true);
    if (!conflict.empty()) return conflict;
    settings.trainer.metric = document_.metric;
    settings.trainer.metric_goal = document_.maximize ? configs::Goal::maximize : configs::Goal::minimize;
    return configs::find_metric_conflict(settings, /*needed=*/true);
  }

  void check_settings(configs::Variation& variation, const Parameters& parameters, const std::string& what) const {
    variation.reset();
    for (const auto& [key, value] : parameters) {
      try {
        variation.set(key, value);
      } catch (const configs::SettingsError& error) {
        fail_at(key, fmt::format("{}: {}", what, error.what()));
      }
    }
    auto& settings = variation.settings();
    std::string conflict = configs::find_conflict(settings);
    if (conflict.empty()) conflict = metric_conflict(settings);
    if (conflict.empty() && document_.resources.elastic()) conflict = elastic_conflict(settings);
    if (conflict.empty()) conflict = gpus_conflict(document_.resources);
    if (!conflict.empty()) throw SweepError("{}: {} ({}): {}", document_.origin, what, list_of(parameters), conflict);
    if (document_.halving.enabled() && settings.trainer.eval_every == 0)
      throw SweepError(
          "{}: {}: trainer.eval_every: found 0, expected > 0: early_terminate compares trials at their evaluations; "
          "set it under overrides or as trainer.eval_every=… on the command line",
          document_.origin, what);
  }

  /// Checks each parameter at its ends and values, with the others at lower end, middle and upper end.
  void check_deferred(configs::Variation& variation) const {
    for (const ParameterSpace& p : document_.space) {
      std::vector<std::string> values = p.values;
      if (values.empty()) values = {value_at(p, 0), value_at(p, 0.5), value_at(p, 1)};
      for (const double others : {0.0, 0.5, 1.0}) {
        Parameters parameters;
        for (const ParameterSpace& other : document_.space) parameters[other.key] = value_at(other, others);
        for (const std::string& value : values) {
          parameters[p.key] = value;
          check_settings(variation, parameters, "a trial");
        }
      }
    }
  }

  /// A trial's jobs, each after what it needs.
  void make_jobs(int64_t trial, const Parameters& parameters, const SweepPlan::Take& take) const {
    JobSpec job{.kind = JobKind::train,
                .name = name_of(trial),
                .sweep = sweep_.spec.id,
                .trial = trial,
                .settings = kSweepSettings,
                .parameters = parameters,
                .deferred = document_.method == "bayes"};
    job.metric = document_.metric;
    job.maximize = document_.maximize;
    job.resources = document_.resources;
    job.priority = document_.priority;
    job.max_attempts = document_.max_attempts;
    if (document_.program) job.program = program_key(*document_.program);
    finish(job);
    std::vector<JobSpec> follow_ups;
    std::vector<std::string> after = {job.id};
    for (const FollowUp& follow : document_.then) {
      JobSpec next = job;
      next.kind = follow.kind;
      next.name = fmt::format("{}-{}", job.name, to_string(follow.kind));
      next.settings = follow.settings;
      next.parameters.clear();
      next.deferred = false;
      next.after = after;
      if (follow.kind == JobKind::export_) next.resources = {};  // an export only copies files
      finish(next);
      after.push_back(next.id);
      follow_ups.push_back(std::move(next));
    }
    take(std::move(job));
    for (auto& next : follow_ups) take(std::move(next));
  }

  std::string name_of(int64_t trial) const { return fmt::format("{}-{}", document_.name, trial); }

  void finish(JobSpec& job) const {
    check_size(job.name, job.settings);
    job.id = job_id(job);
  }

  void check_size(int64_t trial, const Parameters& parameters) const {
    const size_t size = nlohmann::json(parameters).dump().size();
    if (size > Limits::kParameters)
      throw SweepError("{}: {}: found {} bytes of parameters, expected at most {}", document_.origin, name_of(trial),
                       size, Limits::kParameters);
  }

  void check_size(const std::string& what, const std::string& settings) const {
    if (settings.size() > Limits::kSettings)
      throw SweepError("{}: {}: found {} bytes of settings, expected at most {}: shorten its lists of files",
                       document_.origin, what, settings.size(), Limits::kSettings);
  }

  SweepDocument document_;
  int64_t configurations_ = 0;
  Sweep sweep_;  // jobs is empty
};

}  // namespace

void prepare_for_queue(configs::Settings& settings) {
  leave_to_the_agent(settings);
  if (settings.checkpoint.every_steps == 0) settings.checkpoint.every_steps = settings.trainer.eval_every;
}

JobSpec training_job(const TrainingFile& file, const std::vector<std::string>& overrides, const std::string& name) {
  const std::string origin = file.path.string();
  configs::Settings settings = configs::parse_settings(file.yaml, origin, overrides);
  if (const auto conflict = configs::find_metric_conflict(settings, /*needed=*/true); !conflict.empty())
    throw configs::SettingsError("{}: {}", origin, conflict);
  prepare_for_queue(settings);
  JobSpec spec{.kind = JobKind::train, .name = name.empty() ? file.path.stem().string() : name};
  if (spec.name.size() > Limits::kName)
    throw SweepError("{}: found a job name of {} bytes, expected at most {}; --name sets a shorter one", origin,
                     spec.name.size(), Limits::kName);
  spec.settings = configs::to_yaml(settings);
  if (spec.settings.size() > Limits::kSettings)
    throw SweepError("{}: found {} bytes of settings, expected at most {}: shorten its lists of files", origin,
                     spec.settings.size(), Limits::kSettings);
  spec.metric = settings.trainer.metric;
  spec.maximize = configs::maximizes(settings.trainer);
  try {
    spec.id = job_id(spec);
  } catch (const nlohmann::json::exception&) {
    throw SweepError("{}: found text that is not UTF-8", origin);
  }
  return spec;
}

std::string gpus_conflict(const Resources& resources) {
  if (resources.gpus <= 1) return "";
  return fmt::format(
      "resources.gpus: found {}, expected 0 or 1: it is of each rank, and a rank trains on one GPU; to train on {}, "
      "set resources.ranks to {} and resources.gpus to 1",
      resources.gpus, resources.total_gpus(), resources.total_gpus());
}

std::string elastic_conflict(const configs::Settings& settings) {
  if (settings.comm.gradient_dtype != configs::GradientType::float32)
    return "comm.gradient_dtype: found bfloat16, expected float32, or one number of ranks: "
           "each rank rounds its own part of a gradient, so that attempts on other numbers of ranks (resources.ranks: "
           "min and max) would train something else";
  if (settings.model.norm != configs::Norm::batch) return "";
  return "model.norm: found batch, expected none, layer or graph, or one number of ranks: "
         "each rank standardises its own part of a batch, so that attempts on other numbers of ranks (resources.ranks: "
         "min and max) would train something else";
}

configs::Settings trial_settings(const JobSpec& spec, const Parameters& parameters) {
  const std::string origin = "settings of job " + (spec.name.empty() ? spec.id : spec.name);
  configs::Settings settings = configs::parse_settings(spec.settings, origin);
  for (const auto& [key, value] : parameters) configs::apply_override(settings, key, value);
  prepare_for_queue(settings);
  return configs::parse_settings(configs::to_yaml(settings), origin);  // contradictions between keys
}

std::string resolved_settings(const JobSpec& spec) {
  if (spec.kind != JobKind::train) return spec.settings;
  const std::string undecided =
      spec.deferred ? "# The search chooses the parameters of this trial when it starts; they are not included.\n" : "";
  if (!runs_program(spec.settings)) return undecided + configs::to_yaml(trial_settings(spec, spec.parameters));
  const auto trial = parse_program(spec.settings);
  auto json = nlohmann::json::parse(spec.settings);
  json["parameters"] = values_of(trial, spec.parameters);
  return undecided + json.dump(2) + "\n";
}

static SweepPlan plan_of(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                         const std::vector<std::string>& overrides) {
  try {
    return Expansion::run(std::make_shared<Expansion>(read_document(yaml, origin, folder, overrides)));
  } catch (const nlohmann::json::exception&) {
    throw SweepError("{}: found text that is not UTF-8", origin);
  }
}

SweepPlan plan_sweep(const SweepFile& file, const std::vector<std::string>& overrides) {
  return plan_of(file.yaml, file.path.string(), file.path.parent_path(), overrides);
}

Sweep parse_sweep(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                  const std::vector<std::string>& overrides) {
  auto plan = plan_of(yaml, origin, folder, overrides);
  plan.each_job([&](JobSpec&& job) { plan.sweep.jobs.push_back(std::move(job)); });
  return std::move(plan.sweep);
}

}  // namespace foretime::jobs
