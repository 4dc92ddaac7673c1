#include "jobs/agent/agent_command.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/open_mpi.h"
#include "base/process_secrets.h"
#include "configs/load.h"
#include "configs/run_mark.h"
#include "configs/yaml_reader.h"
#include "jobs/agent/attempt_folder.h"
#include "jobs/agent/run_folder.h"
#include "jobs/artifacts/s3_store.h"
#include "jobs/queue/queue.h"
#include "jobs/sweep/finetune_job.h"
#include "jobs/sweep/program_trial.h"
#include "jobs/sweep/sweep.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";  // coordinator/checkpoint_store.h: written last
constexpr size_t kEvaluatedFiles = 4096;
constexpr const char* kTrialFile = "trial.json";  // input of a user's program; its path is in FORETIME_TRIAL

/// Describes a path that a job has published.
struct Published {
  fs::path path;
  bool own = false;  // the path is in an attempt of the job, according to its mark
};
/// Throws JobsError where `path` is not inside the run root.
Published find_published(const std::string& job, const std::string& path, const AgentOptions& options) {
  const auto& runs = options.roots.runs;
  const auto root = allowed_path("run root", runs, runs, {runs});
  Published found{allowed_path("checkpoint of job " + job, path, runs, {runs})};
  const auto below = found.path.lexically_relative(root);
  if (std::distance(below.begin(), below.end()) > 2 && *below.begin() == job)
    found.own = is_attempt_of(root / job / *std::next(below.begin()), {job, options.queue});
  return found;
}

std::string not_made_by(const std::string& job) {
  return "not in an attempt that this queue's agents made for job " + job;
}

/// Returns the real path of a job's checkpoint. Throws JobsError unless it is whole and in an attempt of that job.
fs::path stored_checkpoint(const std::string& job, const std::string& path, const AgentOptions& options) {
  const auto what = "checkpoint of job " + job;
  const auto& roots = options.roots;
  const auto [real, own] = find_published(job, path, options);
  if (!own && files().exists(real)) throw JobsError("{}: {}: {}", what, real.string(), not_made_by(job));
  if (!files().exists(real / kManifest))
    throw JobsError("{}: {}: no whole checkpoint there (no {}); is {} the run root of the agent that wrote it?", what,
                    real.string(), kManifest, roots.runs.string());
  return real;
}

/// The step of a checkpoint's folder; -1 where it is none.
int64_t step_of_folder(const fs::path& folder) {
  constexpr std::string_view kStep = "step-";
  const auto name = folder.filename().string();
  return name.starts_with(kStep) ? parse_number<int64_t>(name.substr(kStep.size())).value_or(-1) : -1;
}

/// Returns the checkpoint from which a training continues: the published one, or, if it is missing or damaged (the
/// trainer keeps few, and Redis may have been unreachable), the newest whole one of all attempts of the job; empty if
/// this machine has none. The trainer checks checksums and falls back to an older checkpoint.
fs::path newest_checkpoint(const Lease& lease, const AgentOptions& options,
                           const std::function<void(const std::string&)>& note) {
  Published published;
  try {
    published = find_published(lease.job, lease.checkpoint, options);
  } catch (const NodeError&) {
    throw;
  } catch (const JobsError&) {
    return {};
  }
  const auto damage = published.own || !files().exists(published.path)
                          ? checkpoint_damage(published.path)
                          : published.path.string() + ": " + not_made_by(lease.job);
  if (damage.empty()) return published.path;
  fs::path newest;
  const auto& runs = options.roots.runs;
  for (const auto& attempt : files().list(allowed_path("run root", runs, runs, {runs}) / lease.job)) {
    if (!is_attempt_of(attempt, {lease.job, options.queue})) continue;
    const auto found = newest_whole_checkpoint(attempt / "checkpoints");
    if (!found.empty() && step_of_folder(found) > step_of_folder(newest)) newest = found;
  }
  if (note)
    note(fmt::format("{}; {}", damage, newest.empty() ? "begins from the start" : "continues from " + newest.string()));
  return newest;
}

template <class Function>
auto or_unusable(const Function& function) {
  try {
    return function();
  } catch (const NodeError&) {
    throw;
  } catch (const JobsError& error) {
    throw JobUnusable(error.what());
  }
}

/// Returns the base of relative data paths: the first data root replaces the submitter's working folder.
fs::path data_base(const AllowedRoots& roots) { return roots.data.empty() ? fs::path("/") : roots.data.front(); }

void resolve_data_paths(configs::DataSettings& data, const AllowedRoots& roots) {
  or_unusable([&] {
    const auto root = allowed_path("data.root", data.root, data_base(roots), roots.data);
    for (auto* patterns : {&data.train, &data.valid, &data.test}) {
      const char* what = patterns == &data.train ? "data.train" : patterns == &data.valid ? "data.valid" : "data.test";
      for (auto& pattern : *patterns) pattern = allowed_pattern(what, pattern, root, roots.data);
    }
    if (!data.eval_indices.empty())
      data.eval_indices = allowed_path("data.eval_indices", data.eval_indices, root, roots.data).string();
    if (!data.node_type_vectors.empty())
      data.node_type_vectors =
          allowed_path("data.node_type_vectors", data.node_type_vectors, root, roots.data).string();
    data.root = root.string();
    data.allowed_roots.clear();
    for (const auto& folder : roots.data) data.allowed_roots.push_back(folder.string());
  });
}

void write_parameters(const fs::path& folder, const Parameters& parameters) {
  write_whole(folder / "parameters.json", nlohmann::json(parameters).dump(2) + "\n");
}

std::vector<std::string> train_arguments(const Lease& lease, const Parameters& parameters, const AgentOptions& options,
                                         const AttemptPlace& place) {
  auto settings = trial_settings(lease.spec, parameters);
  if (const auto conflict = elastic_conflict(settings); lease.spec.resources.elastic() && !conflict.empty())
    throw JobUnusable("job {}: {}", lease.job, conflict);
  resolve_data_paths(settings.data, options.roots);
  settings.run.directory = place.folder.string();
  settings.run.overwrite = false;
  settings.checkpoint.resume = "auto";
  if (!place.resume.empty()) settings.checkpoint.resume = place.resume.string();
  if (settings.trainer.threads == 0) settings.trainer.threads = lease.spec.resources.cpus;
  const auto file = place.folder / "config.yaml";
  write_whole(file, std::string(configs::kRunMark) + configs::to_yaml(settings));
  // What the trial is compared with others by.
  if (!parameters.empty()) write_parameters(place.folder, parameters);
  return {"train", "--quiet", file.string()};
}

/// Throws StorageError where the file system does not tell.
bool is_file(const fs::path& path) {
  std::error_code failure;
  const bool found = fs::is_regular_file(path, failure);
  if (failure && is_storage_failure(failure.value())) throw_file_error(path, "cannot be examined", failure.value());
  return found;
}

/// Returns the words that run a user's program. Throws MissingProgram, and NodeError for the folder of programs.
std::vector<std::string> program_words(const Lease& lease, const Parameters& parameters, const AgentOptions& options,
                                       const AttemptPlace& place) {
  const auto trial = or_unusable([&] { return parse_program(lease.spec.settings); });
  const auto& programs = options.roots.programs;
  if (programs.empty())
    throw JobUnusable(
        "job {}: runs {}, and this agent runs no programs of sweeps; start agents with --programs FOLDER, "
        "the folder to run them in, where you trust whoever may submit; then foretime retry {}",
        lease.job, trial.program.empty() ? "a command" : trial.program,
        lease.spec.sweep.empty() ? lease.job : lease.spec.sweep);
  const auto program = trial.program.empty() ? fs::path() : programs / trial.program;
  if (const auto trouble = trouble_of_root(files(), "programs root", programs); !trouble.empty())
    throw NodeError(trouble);
  if (!program.empty() && !is_file(program))
    throw MissingProgram(
        fmt::format("program: {}: no such file, expected one in --programs {}", program.string(), programs.string()),
        program);
  write_parameters(place.folder, parameters);
  const auto values = values_of(trial, parameters);
  const auto arguments = place.folder / "arguments.json";
  write_whole(arguments, values.dump(2) + "\n");
  const nlohmann::json told = {
      {"job", lease.job},
      {"trial", lease.spec.trial},
      {"parameters", values},
      {"directory", place.folder.string()},
      {"resume", place.resume.empty() ? nlohmann::json() : nlohmann::json(place.resume.string())},
      {"sweep", lease.spec.sweep},
      {"metric", lease.spec.metric},
      {"goal", lease.spec.maximize ? "maximize" : "minimize"}};
  write_whole(place.folder / kTrialFile, told.dump(2) + "\n");
  auto words = or_unusable([&] {
    return arguments_of(trial, parameters, program.string(), arguments.string(),
                        [](const char* name) -> const char* { return std::getenv(name); });
  });
  if (trial.stdout_pattern.empty()) return words;
  if (options.compat.empty())
    throw NodeError("metric_from: the Python package of Foretime is missing next to this agent's program");
  words.insert(words.begin(), {"/usr/bin/env", "python3", (options.compat / "foretime_metric.py").string(), "--metric",
                               lease.spec.metric, "--stdout", trial.stdout_pattern, "--"});
  return words;
}

/// The run directory of the job that this one acts on.
fs::path needed_run(const JobSpec& spec, const AgentOptions& options, const std::optional<JobRecord>& needed,
                    const FetchedArtifact& fetched) {
  if (fetched.found()) return fetched.path;
  if (spec.after.empty())
    throw JobUnusable("job {}: an {} job needs the id of its training job in `after`", spec.id, to_string(spec.kind));
  if (!needed || needed->checkpoint.empty())
    throw JobUnusable("job {}: the job in `after`, {}, {}", spec.id, spec.after.front(),
                      needed ? "left no checkpoint" : "is unknown (forgotten after its time to live?)");
  const auto folder = stored_checkpoint(spec.after.front(), needed->checkpoint, options);
  return folder.parent_path().filename() == "checkpoints" ? folder.parent_path().parent_path() : folder;
}

void check_override(const std::string& key, const std::string& value) {
  for (const auto* own : {"data.root", "data.train", "data.valid", "data.test", "data.eval_indices",
                          "data.node_type_vectors", "data.allowed_roots"}) {
    if (key == own) throw JobUnusable("set: {}: belongs to the agent; name data sets in `files`", key);
  }
  if (key.starts_with("run.") || key.starts_with("checkpoint."))
    throw JobUnusable("set: {}: belongs to the agent", key);
  configs::Settings settings;
  configs::apply_override(settings, key, value);
}

std::vector<std::string> evaluate_arguments(const JobSpec& spec, const AgentOptions& options,
                                            const std::optional<JobRecord>& needed, const FetchedArtifact& fetched) {
  std::vector<std::string> files, sets;
  const auto origin = fmt::format("job {}: settings", spec.id);
  const configs::YamlEntry map{"", configs::parse_document(spec.settings, origin), origin};
  std::vector<configs::YamlEntry> entries;
  if (!map.node.IsNull()) entries = configs::items_of(map, origin, "", {"files", "set"});
  for (const auto& entry : entries) {
    if (entry.key == "files") {
      for (const YAML::Node& file : entry.node)
        files.push_back(configs::text_in({entry.key, file, entry.place}, Limits::kPath));
      continue;
    }
    for (const auto& item : configs::items_of(entry, origin, "", {})) {
      if (!item.node.IsScalar()) configs::fail(item, "found no text, expected the value of a setting");
      check_override(item.key, item.node.Scalar());
      sets.push_back(item.key + "=" + item.node.Scalar());
    }
  }
  if (files.size() > kEvaluatedFiles)
    throw JobUnusable("files: found {} files, expected at most {}; use patterns", files.size(), kEvaluatedFiles);
  std::vector<std::string> arguments = {"evaluate", needed_run(spec, options, needed, fetched).string()};
  for (const auto& file : files)
    arguments.push_back(
        or_unusable([&] { return allowed_pattern("files", file, data_base(options.roots), options.roots.data); }));
  std::vector<std::string> roots;
  for (const auto& root : options.roots.data) roots.push_back(root.string());
  sets.push_back("data.allowed_roots=" + nlohmann::json(roots).dump());
  for (const auto& set : sets) {
    arguments.emplace_back("--set");
    arguments.push_back(set);
  }
  arguments.emplace_back("--json");
  return arguments;
}

/// Returns the bundle of the fine-tuning job from which this one continues.
fs::path needed_bundle(const JobSpec& spec, const AgentOptions& options, const std::optional<JobRecord>& needed,
                       const FetchedArtifact& fetched) {
  if (fetched.found()) return fetched.path;
  const auto& id = spec.after.front();
  if (!needed || needed->spec.kind != JobKind::finetune || needed->checkpoint.empty())
    throw JobUnusable("job {}: the job in `after`, {}, {}", spec.id, id,
                      needed ? "left no bundle" : "is unknown (forgotten after its time to live?)");
  auto [real, own] = find_published(id, needed->checkpoint, options);
  if (!files().exists(real) || files().is_folder(real))
    throw JobsError("bundle of job {}: {}: no such file; is {} the run root of the agent that wrote it?", id,
                    real.string(), options.roots.runs.string());
  if (!own) throw JobsError("bundle of job {}: {}: {}", id, real.string(), not_made_by(id));
  return real;
}

std::vector<std::string> finetune_arguments(const JobSpec& spec, const AgentOptions& options,
                                            const std::optional<JobRecord>& needed, const AttemptPlace& place) {
  const auto settings = parse_finetune(spec);
  const auto& roots = options.roots.data;
  const auto base = data_base(options.roots);
  std::vector<std::string> folders;
  for (const auto& root : roots) folders.push_back(root.string());
  fs::path bundle;
  if (!spec.after.empty()) {
    bundle = needed_bundle(spec, options, needed, place.fetched);
    folders.push_back(bundle.parent_path().string());
  }
  std::vector<std::string> arguments = {"finetune"};
  if (!bundle.empty()) arguments.push_back(bundle.string());
  for (const auto& key : kFinetuneKeys) {
    const std::string name = key.name;
    const auto found = settings.find(name);
    if (found == settings.end() || (name == "model" && !bundle.empty())) continue;
    if (name != "model" && name != "records") {
      arguments.push_back("--" + name);
      std::replace(arguments.back().begin(), arguments.back().end(), '_', '-');
    }
    for (const auto& value : found->second) {
      if (key.kind == FinetuneKey::path)
        arguments.push_back(or_unusable([&] { return allowed_path("finetune." + name, value, base, roots).string(); }));
      if (key.kind == FinetuneKey::files)
        arguments.push_back(or_unusable([&] { return allowed_pattern("finetune." + name, value, base, roots); }));
      if (key.kind == FinetuneKey::text || key.kind == FinetuneKey::number) arguments.push_back(value);
    }
  }
  arguments.insert(arguments.end(), {"--threads", fmt::to_string(spec.resources.cpus)});
  for (const auto& folder : folders) arguments.insert(arguments.end(), {"--confine", folder});
  arguments.insert(arguments.end(), {"-o", (place.folder / kBundleFile).string()});
  return arguments;
}

std::map<std::string, std::string> attempt_environment(const JobSpec& spec, const AgentOptions& options,
                                                       const AttemptPlace& place) {
  std::map<std::string, std::string> environment = {
      {"OMP_NUM_THREADS", std::to_string(spec.resources.cpus)},
      // A job that asked for no GPU sees none: -1 is no device, while an empty value would be no variable here.
      {"CUDA_VISIBLE_DEVICES", place.slots.gpus.empty() ? "-1" : fmt::format("{}", fmt::join(place.slots.gpus, ","))}};
  for (const std::string secret : secret_variables()) {
    // Without artifacts in S3, AWS_* are the job's own.
    if (is_s3_address(options.store) || !secret.starts_with("AWS_")) environment[secret] = "";
  }
  for (const auto& name : options.launcher.variables_of_outer_launch(environ)) environment[name] = "";
  if (geteuid() == 0)
    for (const auto* variable : kMpiRootVariables) environment[variable] = "1";
  return environment;
}

}  // namespace

fs::path make_attempt_folder(const AgentOptions& options, const Lease& lease) {
  const auto& roots = options.roots;
  if (!is_id(lease.job)) throw JobUnusable("job id: expected 1 to 64 letters, digits, - and _");
  const auto job = roots.runs / lease.job;
  files().create_folders(job);
  files().sync_folder(roots.runs);  // or a loss of power takes all that the job will write
  const auto real = allowed_path("run directory", job, roots.runs, {roots.runs});
  const auto name = fmt::format("attempt-{}", lease.fence);
  for (const auto& folder : {real / name, real / (name + "-" + (is_id(lease.token) ? lease.token : "again"))}) {
    if (!files().create_folder(folder)) continue;
    mark_attempt(folder, {lease.job, options.queue});
    files().sync_folder(real);
    return folder;
  }
  throw JobsError("{}: exists already, from another attempt with this fence", (real / name).string());
}

std::optional<MissingArtifacts> missing_artifacts(const Lease& lease, const AgentOptions& options,
                                                  const std::optional<JobRecord>& needed, bool newer) {
  const auto& spec = lease.spec;
  if (spec.kind == JobKind::train) {
    if (lease.fence <= 1) return std::nullopt;
    const bool here = !lease.checkpoint.empty() && !newest_checkpoint(lease, options, {}).empty();
    if (here && !newer) return std::nullopt;
    return MissingArtifacts{lease.job, Want::resume};
  }
  if (spec.after.empty()) return std::nullopt;
  if (!needed) return std::nullopt;
  if (!needed->checkpoint.empty()) {
    const auto [real, own] = find_published(spec.after.front(), needed->checkpoint, options);
    if (own && (spec.kind == JobKind::finetune ? files().exists(real) : checkpoint_damage(real).empty()))
      return std::nullopt;
  }
  return MissingArtifacts{spec.after.front(), Want::result};
}

fs::path resume_checkpoint(const Lease& lease, const AgentOptions& options, const AttemptPlace& place) {
  fs::path checkpoint;
  const bool fetched = place.fetched.found();
  if (!lease.checkpoint.empty())
    checkpoint = newest_checkpoint(lease, options, fetched ? decltype(place.note)() : place.note);
  if (!fetched || place.fetched.step <= step_of_folder(checkpoint)) return checkpoint;
  if (place.note) place.note("continues from the stored checkpoint of step " + std::to_string(place.fetched.step));
  return place.fetched.path;
}

SupervisedProcess::Options attempt_command(const Lease& lease, const Parameters& parameters,
                                           const AgentOptions& options, const std::optional<JobRecord>& needed,
                                           const AttemptPlace& place) {
  const auto& spec = lease.spec;
  std::vector<std::string> command = {options.program.empty() ? fs::read_symlink("/proc/self/exe").string()
                                                              : options.program};
  std::vector<std::string> arguments;
  const bool own_program = spec.kind == JobKind::train && runs_program(spec.settings);
  switch (spec.kind) {
    case JobKind::train:
      if (own_program) {
        command = program_words(lease, parameters, options, place);
        break;
      }
      arguments = train_arguments(lease, parameters, options, place);
      break;
    case JobKind::evaluate: arguments = evaluate_arguments(spec, options, needed, place.fetched); break;
    case JobKind::export_:
      arguments = {"export", needed_run(spec, options, needed, place.fetched).string(),
                   (place.folder / "export").string()};
      break;
    case JobKind::finetune: arguments = finetune_arguments(spec, options, needed, place); break;
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  SupervisedProcess::Options process;
  // An export copies files, a fine-tuning writes one: more than one process of them would be in each other's way.
  auto resources = lease.resources();
  if (spec.kind == JobKind::finetune) resources.ranks = 1;
  std::string hosts;
  for (const auto& host : place.slots.hosts)
    hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", host.name, host.cpus / resources.cpus);
  process.arguments = spec.kind == JobKind::export_ ? command : options.launcher.arguments(resources, command, hosts);
  process.environment = attempt_environment(spec, options, place);
  process.working_folder = own_program ? options.roots.programs : place.folder;
  if (own_program) {
    process.environment["FORETIME_TRIAL"] = (place.folder / kTrialFile).string();
    process.environment.emplace("PYTHONUNBUFFERED", "1");
    const char* own_path = std::getenv("PYTHONPATH");
    if (!options.compat.empty())
      process.environment["PYTHONPATH"] =
          (own_path == nullptr || *own_path == '\0' ? "" : std::string(own_path) + ":") + options.compat.string();
  }
  if ((resources.ranks > 1 || !options.hosts.empty()) && spec.kind != JobKind::export_ &&
      options.launcher.may_leave_host())
    process.listen = options.listen;
  process.separate_stdout = spec.kind == JobKind::evaluate;
  return process;
}

std::string published_checkpoint(const std::string& path, const fs::path& folder, const AllowedRoots& roots) {
  const auto real = allowed_path("checkpoint", path, folder, {folder});
  if (!files().exists(real / kManifest))
    throw JobsError(
        "checkpoint: {}: no {}, expected a whole checkpoint: write it last, {{\"step\": N, \"files\": {{\"NAME\": "
        "{{\"bytes\": SIZE}}, …}}}} (docs/reference/job-protocol.md)",
        real.string(), kManifest);
  const auto relative = real.lexically_relative(allowed_path("run root", roots.runs, roots.runs, {roots.runs}));
  if (relative.empty() || *relative.begin() == "..")
    throw JobsError("checkpoint: {}: not below the run root", real.string());
  return relative.string();
}

}  // namespace foretime::jobs
