#include "coordinator/run_directory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <malloc.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/foreign_file.h"
#include "base/message.h"
#include "base/partial_files.h"
#include "base/read_input.h"
#include "base/text.h"
#include "configs/fields.h"
#include "configs/load.h"
#include "configs/metrics.h"
#include "configs/run_mark.h"

namespace foretime::coordinator {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The settings with all that does not change a step's result put back to its default.
configs::Settings result_shaping(configs::Settings settings) {
  const configs::Settings defaults;
  settings.trainer.steps = defaults.trainer.steps;
  settings.trainer.epochs = defaults.trainer.epochs;
  settings.trainer.eval_every = defaults.trainer.eval_every;
  settings.trainer.log_every = defaults.trainer.log_every;
  settings.trainer.metric_goal =
      configs::maximizes(settings.trainer) ? configs::Goal::maximize : configs::Goal::minimize;
  settings.trainer.threads = defaults.trainer.threads;
  settings.trainer.device = defaults.trainer.device;
  settings.trainer.deterministic = defaults.trainer.deterministic;
  settings.trainer.eval_states = defaults.trainer.eval_states;
  settings.trainer.baselines = defaults.trainer.baselines;
  settings.checkpoint = defaults.checkpoint;
  const auto gradient_dtype = settings.comm.gradient_dtype;
  settings.comm = defaults.comm;
  settings.comm.gradient_dtype = gradient_dtype;
  settings.data.test = defaults.data.test;
  settings.data.allowed_roots = defaults.data.allowed_roots;
  settings.data.overlap = defaults.data.overlap;
  settings.run = defaults.run;
  return settings;
}

using Clock = std::chrono::steady_clock;
constexpr const char* kResources = "resources.json";
constexpr double kKibPerMib = 1024;

double rounded(double value) { return std::round(value * 1000) / 1000; }

constexpr uint64_t kMostNoteBytes = 1 << 20, kMostSettingsBytes = 64 << 20;

// What a run writes into its directory.
constexpr const char *kConfig = "config.yaml", *kLog = "log.txt", *kMetrics = "metrics.jsonl",
                     *kCheckpoints = "checkpoints", *kBaselines = "baselines";
constexpr std::array kWritten = {kConfig,        "environment.json", "data.json",     kMetrics,
                                 "rankings.csv", "trace.json",       "profile.txt",   kCheckpoints,
                                 kBaselines,     kResources,         "comparison.txt"};

bool is_run(const fs::path& folder) {
  try {
    const auto settings = read_foreign(folder, kConfig, kMostSettingsBytes);
    return settings && settings->starts_with(configs::kRunMark);
  } catch (const ForeignFileError&) {
    return false;
  }
}

/// Removes what interrupted processes left of the files of a run: it would keep the disk full.
void remove_partial_files(const fs::path& folder) {
  for (const auto& file : files().list(folder))
    if (std::ranges::any_of(kWritten, [&](const char* name) { return is_partial_file_of(file, name); }))
      files().remove(file);
}

/// Removes what a run and its baselines have written, except config.yaml, which the next run replaces. Everything else
/// in the folder stays: its owner's notes, say.
void clear_run(const fs::path& folder) {
  CheckpointStore(folder / kCheckpoints).clear();
  for (const auto& baseline : files().list(folder / kBaselines)) {
    if (!is_run(baseline)) continue;
    clear_run(baseline);
    files().remove(baseline / kConfig);
    if (files().is_empty(baseline)) files().remove(baseline);
  }
  for (const std::string name : kWritten)
    if (name != kConfig && name != kCheckpoints && name != kBaselines) files().remove(folder / name);
  for (const auto& file : files().list(folder)) {
    const auto name = file.filename().string();
    if (name.starts_with("events.out.tfevents.") && name.ends_with(".foretime")) files().remove(file);
  }
}

/// Returns whether a folder has no log, or one of make_logger: a run that failed early has left a log and no
/// config.yaml.
bool has_no_foreign_log(const fs::path& folder) {
  constexpr std::string_view kTime = "0000-00-00 00:00:00.000 ";
  const auto file = open_foreign(folder, kLog, UINT64_MAX);
  std::string start(file ? kTime.size() : 0, '\0');
  if (file) start.resize(file->read(start));
  for (char& c : start)
    if (is_digit(c)) c = '0';
  return start.empty() || start == kTime;
}

}  // namespace

std::string config_differences(const configs::Settings& before, const configs::Settings& now) {
  auto old_settings = result_shaping(before), new_settings = result_shaping(now);
  const auto old_fields = configs::list_fields(old_settings).fields,
             new_fields = configs::list_fields(new_settings).fields;
  const auto text = [](const configs::Settings& settings, const configs::Field& field) {
    return configs::is_read(settings, field.key) ? configs::write_value(field.value) : std::string("unused");
  };
  std::string differences;
  for (size_t i = 0; i < new_fields.size(); ++i) {
    const auto left = text(old_settings, old_fields[i]), right = text(new_settings, new_fields[i]);
    if (left != right) differences += fmt::format("\n  {}: {} -> {}", new_fields[i].key, left, right);
  }
  return differences;
}

void require_run_or_empty_folder(const fs::path& folder) {
  const bool own_log = has_no_foreign_log(folder);
  if (is_run(folder)) return;
  const auto found = std::ranges::find_if(kWritten, [&](const char* name) { return files().exists(folder / name); });
  if (found != kWritten.end() || !own_log)
    throw configs::SettingsError(
        "{}: exists, but is not a run of Foretime "
        "(the first line of its config.yaml would say so); name another run.directory",
        (folder / (own_log ? *found : kLog)).string());
}

RunDirectory::RunDirectory(const configs::Settings& settings, DataFingerprints data)
    : path_(settings.run.directory), checkpoints_(path_ / kCheckpoints) {
  const auto config = path_ / kConfig;
  const Json own = {{"fingerprint", fmt::format("{:016x}", data.all)},
                    {"training", fmt::format("{:016x}", data.training)}};
  require_run_or_empty_folder(path_);
  const bool begun = files().exists(config);
  // A run that was refused or diverged before its first checkpoint leaves nothing to continue.
  restarts_empty_run_ =
      begun && !settings.run.overwrite && files().exists(path_ / "data.json") && checkpoints_.steps().empty();
  if (begun && (settings.run.overwrite || restarts_empty_run_)) {
    clear_run(path_);
  } else if (begun) {
    const auto differences = config_differences(configs::settings_of_run(path_), settings);
    if (!differences.empty())
      throw configs::SettingsError(
          "{}: holds a run with another configuration:{}\n"
          "name another run.directory, or set run.overwrite=true to start again there",
          path_.string(), differences);
    if (const auto text = read_foreign(path_, "data.json", kMostNoteBytes)) {
      const auto stored = Json::parse(*text, nullptr, false);
      const auto found = stored.is_object() ? stored.value("training", Json()) : Json();
      const auto before = found.is_string() ? found.get<std::string>() : "none";
      const auto now = own.at("training").get<std::string>();
      if (before != now)
        throw RunError(
            "{}: the run trained on data with fingerprint {}, but data.train and data.valid have {} now; "
            "restore the data, name another run.directory, or set run.overwrite=true to start again",
            (path_ / "data.json").string(), before, now);
    }
  }
  if (begun) remove_partial_files(path_);
  create_folders_synced(path_);
  write(kConfig, std::string(configs::kRunMark) + configs::to_yaml(settings));  // first: it says that this is a run
  create_folders_synced(path_ / kCheckpoints);
  write("data.json", own.dump() + "\n");
}

void RunDirectory::append_metrics(const Json& line) {
  const auto path = path_ / kMetrics;
  const uint64_t before = size_of_metrics();
  try {
    const auto file = files().open(path, Files::Open::append);
    file->write(line.dump() + '\n');
    file->close();
    has_metrics_ = true;
  } catch (const FileError&) {
    std::error_code ignored;  // a part of a line on a full disk, where nothing can be written any more
    fs::resize_file(path, before, ignored);
    throw;
  }
}

void RunDirectory::sync_metrics() {
  if (size_of_metrics() == 0) return;
  files().open(path_ / kMetrics, Files::Open::append)->sync();
  files().sync_folder(path_);
}

uint64_t RunDirectory::size_of_metrics() const {
  const auto file = open_foreign(path_, kMetrics, UINT64_MAX);
  if (!file && has_metrics_) throw_write_error(path_ / kMetrics, "cannot be written: open", ENOENT);
  return file ? file->size() : 0;
}

void RunDirectory::rewind_metrics(int64_t step) {
  std::string kept;
  const bool found = read_foreign_lines(path_, kMetrics, UINT64_MAX, [&](std::string_view line) {
    const auto parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_object()) return;
    const auto at = parsed.find("step");
    if (at == parsed.end() || (at->is_number() && at->get<int64_t>() <= step)) kept.append(line).append("\n");
  });
  if (found) write_file_atomically(path_ / kMetrics, kept);
}

void RunDirectory::write(const std::string& name, const std::string& text) {
  write_file_atomically(path_ / name, text);
}

Json describe_environment(int ranks, int threads, const std::string& communicator, const std::string& device) {
  utsname system{};
  uname(&system);
  return {{"ranks", ranks},
          {"threads_per_rank", threads},
          {"cores", std::thread::hardware_concurrency()},
          {"communicator", communicator},
          {"device", device},
          {"host", system.nodename},
          {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"libtorch", TORCH_VERSION},
          {"compiler", __VERSION__}};
}

ResourceMeter::ResourceMeter() {
  malloc_trim(0);  // excludes memory that earlier runs of this process have freed
  std::ofstream("/proc/self/clear_refs") << "5";
  start_ = Clock::now();
}

double ResourceMeter::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

double ResourceMeter::peak_memory() const {
  std::istringstream status(kernel_text("/proc/self/status"));
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / kKibPerMib;
  }
  return 0;
}

void write_run_resources(const std::filesystem::path& folder, const RunResources& resources) {
  const nlohmann::json json = {{"seconds", rounded(resources.seconds)},
                               {"memory_mib", rounded(resources.memory)},
                               {"memory_of_all_ranks_mib", rounded(resources.all_memory)}};
  write_file_atomically(folder / kResources, json.dump(2) + "\n");
}

std::optional<RunResources> read_run_resources(const std::filesystem::path& folder) {
  const auto text = read_foreign(folder, kResources, kMostNoteBytes);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const auto number = [&](const char* key, double& value) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (found == json.end() || !found->is_number() || found->get<double>() < 0) return false;
    value = found->get<double>();
    return true;
  };
  RunResources resources;
  if (!number("seconds", resources.seconds) || !number("memory_mib", resources.memory) ||
      !number("memory_of_all_ranks_mib", resources.all_memory))
    return std::nullopt;
  return resources;
}

}  // namespace foretime::coordinator
