#include "jobs/agent/agent_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/machine/machine.h"
#include "base/process.h"
#include "base/text.h"
#include "jobs/agent/world.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCommand = "{command}", *kHosts = "{hosts}";
constexpr std::array<const char*, 4> kVariables = {"{ranks}", "{cpus}", "{gpus}", "{threads}"};

void check_names(const std::string& text, const std::string& word, bool over_hosts) {
  for (size_t open = word.find('{'); open != std::string::npos; open = word.find('{', open + 1)) {
    const auto close = word.find('}', open);
    const auto name = word.substr(open, close == std::string::npos ? close : close - open + 1);
    if (name == kCommand) throw JobsError("launcher '{}': {{command}} must be a separate word", text);
    if (name == kHosts && !over_hosts)
      throw JobsError("launcher '{}': {{hosts}} is only allowed for an agent with --hosts", text);
    if (name != kHosts &&
        std::none_of(kVariables.begin(), kVariables.end(), [&](const char* known) { return name == known; })) {
      throw JobsError("launcher '{}': unknown {}, expected {{command}}, {{ranks}}, {{cpus}}, {{gpus}} or {{threads}}",
                      text, name);
    }
  }
}

std::string filled(std::string word, const Resources& resources, const std::string& hosts) {
  replace_all(word, kHosts, hosts);
  const std::array<int64_t, 4> values = {resources.ranks, resources.cpus, resources.gpus, resources.cpus};
  for (size_t i = 0; i < kVariables.size(); ++i) replace_all(word, kVariables[i], std::to_string(values[i]));
  return word;
}

fs::path real_folder(const char* what, const fs::path& path) {
  auto real = allowed_path(fmt::format("agent: {}", what), path, fs::current_path(), {"/"});
  if (!files().is_folder(real))
    throw JobsError("agent: {} {}: {}", what, path.string(), files().exists(real) ? "not a folder" : "not there");
  return real;
}

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
      else word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (inside) words.push_back(std::exchange(word, ""));
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) throw JobsError("--launcher or --host-check '{}': the quote {} is not closed", text, quote);
  if (inside) words.push_back(word);
  return words;
}

Launcher::Launcher(const std::string& text, bool in_step, bool over_hosts)
    : text_(over_hosts && text == "auto" ? "mpirun" : text) {
  if (text_ == "auto" || (text_ == "direct" && !over_hosts)) return;
  const std::string srun = in_step ? kSrunInStep : kSrun;
  words_ = split_words(text_ == "mpirun" ? kMpirun : text_ == "srun" ? srun : text_);
  if (over_hosts && text_ == "mpirun") words_.insert(words_.begin() + 1, {"--host", kHosts});
  const bool names_hosts =
      std::ranges::any_of(words_, [](const auto& word) { return word.find(kHosts) != std::string::npos; });
  if (over_hosts && !names_hosts)
    throw JobsError(
        "launcher '{}': no {{hosts}}, expected mpirun or words with {{hosts}} and {{command}}: the agent has --hosts, "
        "which say where jobs run",
        text);
  const auto commands = std::count(words_.begin(), words_.end(), kCommand);
  for (const auto& word : words_)
    if (word != kCommand) check_names(text, word, over_hosts);
  if (commands != 1 || words_.front() == kCommand)
    throw JobsError(
        "launcher '{}': {}, expected auto, direct, mpirun, srun, "
        "or words with one {{command}} after the program, such as '{}'",
        text,
        commands == 0  ? "no {command}"
        : commands > 1 ? "more than one {command}"
                       : "no program",
        kMpirun);
}

std::vector<std::string> Launcher::arguments(const Resources& resources, const std::vector<std::string>& command,
                                             const std::string& hosts) const {
  auto words = words_;
  if (words.empty()) {
    if (resources.ranks == 1) return command;
    if (text_ == "direct")
      throw JobsError(
          "a job of {} ranks cannot be started by the launcher 'direct'; "
          "expected mpirun, srun or a template (foretime agent --launcher)",
          resources.ranks);
    words = split_words(kMpirun);
  }
  std::vector<std::string> result;
  for (const auto& word : words) {
    if (word == kCommand) result.insert(result.end(), command.begin(), command.end());
    else if (resources.gpus > 0 || word.find("{gpus}") == std::string::npos)
      result.push_back(filled(word, resources, hosts));
  }
  return result;
}

std::vector<std::string> Launcher::variables_of_outer_launch(char* const* environment) const {
  // Slurm's, PMI's and PMIx', Hydra's, and what Open MPI's daemon tells the ranks beside what its user has set.
  constexpr std::array kPrefixes = {"SLURM_",
                                    "SLURMD_",
                                    "PMI_",
                                    "PMIX_",
                                    "HYDI_",
                                    "MPI_LOCAL",
                                    "OMPI_COMM_WORLD_",
                                    "OMPI_UNIVERSE_SIZE",
                                    "OMPI_APP_CTX_NUM_PROCS",
                                    "OMPI_NUM_APP_CTX",
                                    "OMPI_FIRST_RANKS",
                                    "OMPI_FILE_LOCATION",
                                    "OMPI_ARGV",
                                    "OMPI_COMMAND",
                                    "OMPI_MCA_orte_",
                                    "OMPI_MCA_ess",
                                    "OMPI_MCA_initial_wdir",
                                    "OMPI_MCA_shmem_RUNTIME_QUERY_hint"};
  const bool steps = !words_.empty() && fs::path(words_.front()).filename() == "srun";
  const auto stays = [&](std::string_view name) {
    return name == "SLURM_CONF" || (steps && (name == "SLURM_JOB_ID" || name == "SLURM_JOBID" ||
                                              name == "SLURM_JOB_NODELIST" || name == "SLURM_CLUSTER_NAME"));
  };
  std::vector<std::string> found;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    if (!stays(name) && std::ranges::any_of(kPrefixes, [&](const char* prefix) { return name.starts_with(prefix); }))
      found.emplace_back(name);
  }
  return found;
}

AgentOptions completed(AgentOptions options, World& world) {
  const auto host = host_name();
  if (options.name.empty()) options.name = fmt::format("{}:{}:{}", host, getpid(), world.random_hex(6));
  if (!options.hosts.empty()) options.cpus = 0;
  for (const auto& host : options.hosts) options.cpus += host.cpus;
  if (options.cpus <= 0) options.cpus = std::ssize(usable_cpus());
  create_folders_synced(options.roots.runs);
  options.roots.runs = real_folder("run root", options.roots.runs);
  for (auto& root : options.roots.data) root = real_folder("data root", root);
  return options;
}

Slots::Slots(int64_t cpus, const std::vector<std::string>& gpus, const std::vector<AgentHost>& hosts)
    : free_hosts_(hosts), free_gpus_(gpus) {
  if (hosts.empty()) free_hosts_ = {{"", cpus}};
  std::sort(free_gpus_.begin(), free_gpus_.end());
  const auto twice = std::adjacent_find(free_gpus_.begin(), free_gpus_.end());
  if (twice != free_gpus_.end()) throw JobsError("--gpus: found {} twice, expected each GPU once", *twice);
}

int64_t Slots::free_cpus() const {
  int64_t free = 0;
  for (const auto& host : free_hosts_) free += answers(host) ? host.cpus : 0;
  return free;
}

std::vector<int64_t> Slots::free_of_hosts() const {
  std::vector<int64_t> free;
  for (const auto& host : free_hosts_)
    if (answers(host) && !host.name.empty()) free.push_back(host.cpus);
  return free;
}

void Slots::set_silent(std::set<std::string> hosts) {
  asked_ = true;
  silent_ = std::move(hosts);
}

std::optional<JobSlots> Slots::take(const Resources& resources) {
  if (resources.total_gpus() > free_gpus()) return std::nullopt;
  JobSlots taken;
  int64_t ranks = resources.ranks;
  for (const auto& host : free_hosts_) {
    const auto here = answers(host) ? std::min(ranks, host.cpus / resources.cpus) : 0;
    if (here > 0) taken.hosts.push_back({host.name, here * resources.cpus});
    ranks -= here;
  }
  if (ranks > 0) return std::nullopt;
  for (const auto& part : taken.hosts)
    for (auto& host : free_hosts_) host.cpus -= host.name == part.name ? part.cpus : 0;
  const auto end = free_gpus_.begin() + resources.total_gpus();
  taken.gpus.assign(free_gpus_.begin(), end);
  free_gpus_.erase(free_gpus_.begin(), end);
  return taken;
}

void Slots::give_back(const JobSlots& slots) {
  for (const auto& part : slots.hosts)
    for (auto& host : free_hosts_) host.cpus += host.name == part.name ? part.cpus : 0;
  free_gpus_.insert(free_gpus_.end(), slots.gpus.begin(), slots.gpus.end());
  std::sort(free_gpus_.begin(), free_gpus_.end());
}

}  // namespace foretime::jobs
