#include "jobs/agent/host_watch.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/numbers.h"
#include "base/process.h"
#include "base/process_secrets.h"
#include "base/text.h"
#include "jobs/agent/agent_options.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr const char* kHost = "{host}";
constexpr int64_t kMostCpusOfHost = 65536;
constexpr auto kProbePoll = std::chrono::milliseconds(10);

/// Starts a process in a new group, without input, output and this process's credentials. Returns -1 on failure.
pid_t spawn_quiet(const std::vector<std::string>& words) {
  const auto environment = environment_without_secrets();
  const auto arguments = exec_pointers(words), variables = exec_pointers(environment);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  for (const int out : {1, 2}) posix_spawn_file_actions_addopen(&files, out, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = -1;
  if (posix_spawnp(&process, arguments[0], &files, &attributes, arguments.data(), variables.data()) != 0) process = -1;
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return process;
}

}  // namespace

std::vector<AgentHost> parse_hosts(const std::string& text) {
  std::vector<AgentHost> hosts;
  const auto expected = "expected names and CPUs such as h1:4,h2:4";
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto entry = text.substr(begin, end - begin);
    begin = end + 1;
    const auto colon = entry.find(':');
    AgentHost host{.name = entry.substr(0, colon)};
    if (host.name.empty() || host.name.find_first_of(" \t\n/{}'\"") != std::string::npos || host.name.front() == '-')
      throw JobsError("--hosts: found '{}', {}", printable(entry), expected);
    if (colon != std::string::npos) {
      host.cpus = parse_number<int64_t>(entry.substr(colon + 1)).value_or(0);
      if (host.cpus < 1 || host.cpus > kMostCpusOfHost)
        throw JobsError("--hosts: found '{}', {}", printable(entry), expected);
    }
    if (std::ranges::any_of(hosts, [&](const AgentHost& other) { return other.name == host.name; }))
      throw JobsError("--hosts: found {} twice, expected each host once", printable(host.name));
    hosts.push_back(host);
  }
  return hosts;
}

HostProbe command_probe(const std::string& text, double seconds) {
  const auto words = split_words(text);
  const bool has_host =
      std::ranges::any_of(words, [](const auto& word) { return word.find(kHost) != std::string::npos; });
  if (!has_host || words.front().find(kHost) != std::string::npos)
    throw JobsError("--host-check: found '{}', expected a program and {{host}}, such as 'ping -c 1 -W 2 {{host}}'",
                    printable(text));
  return [words, seconds](const std::vector<std::string>& hosts) {
    std::map<pid_t, std::string> asked;
    std::set<std::string> silent;
    for (const auto& host : hosts) {
      auto filled = words;
      for (auto& word : filled) replace_all(word, kHost, host);
      const auto process = spawn_quiet(filled);
      if (process < 0) silent.insert(host);
      else asked[process] = host;
    }
    for (const double end = steady_seconds() + seconds; !asked.empty();) {
      const bool late = steady_seconds() >= end;
      for (auto it = asked.begin(); it != asked.end();) {
        if (late) kill(-it->first, SIGKILL);
        int status = 0;
        if (waitpid(it->first, &status, late ? 0 : WNOHANG) == 0) {
          ++it;
          continue;
        }
        if (late || !WIFEXITED(status) || WEXITSTATUS(status) != 0) silent.insert(it->second);
        it = asked.erase(it);
      }
      if (!asked.empty()) std::this_thread::sleep_for(kProbePoll);
    }
    return silent;
  };
}

HostWatch::HostWatch(const std::vector<AgentHost>& hosts, HostProbe probe, std::function<void()> wake, World& world,
                     spdlog::logger& log)
    : probe_(std::move(probe)), world_(world), log_(log), wake_(std::move(wake)) {
  for (const auto& host : hosts)
    if (host.name != host_name()) probed_hosts_.push_back(host.name);
  background_ = world.run_beside([this] { return step(); });
}

HostWatch::~HostWatch() = default;

double HostWatch::step() {
  Check check{.began = world_.steady_seconds(), .silent = {}};
  check.silent = probe_(probed_hosts_);
  {
    const std::lock_guard lock(mutex_);
    check.number = check_.number + 1;
    check_ = std::move(check);
  }
  wake_();
  return kInterval;
}

HostWatch::Check HostWatch::last_check() {
  const std::lock_guard lock(mutex_);
  return check_;
}

std::optional<std::set<std::string>> HostWatch::changed_silent_hosts() {
  auto check = last_check();
  if (check.number == reported_check_) return std::nullopt;
  const bool first = reported_check_ == 0;
  reported_check_ = check.number;
  if (!first && check.silent == reported_silent_) return std::nullopt;
  for (const auto& host : check.silent)
    if (!reported_silent_.contains(host)) log_.warn("host {} does not answer: no job is started there", host);
  for (const auto& host : reported_silent_)
    if (!check.silent.contains(host)) log_.info("host {} answers again", host);
  reported_silent_ = check.silent;
  return std::move(check.silent);
}

std::optional<std::set<std::string>> HostWatch::silent_since(double since) {
  auto check = last_check();
  if (check.began >= since) return std::move(check.silent);
  background_->wake();
  return std::nullopt;
}

}  // namespace foretime::jobs
