#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Describes a host that the jobs of an agent run on.
struct AgentHost {
  std::string name;
  int64_t cpus = 1;  // CPUs for jobs on this host
  bool operator==(const AgentHost&) const = default;
};

/// Parses hosts in the form of mpirun's --host: "h1:4,h2:4"; a host without a number has one CPU. Throws JobsError for
/// an empty name, a number below 1 or a repeated host.
std::vector<AgentHost> parse_hosts(const std::string& text);

/// Returns the hosts in `hosts` that do not answer.
using HostProbe = std::function<std::set<std::string>(const std::vector<std::string>& hosts)>;
/// Returns a probe that runs a command for all hosts at once: words, without a shell, in which {host} is replaced by
/// the host's name. A host answers if its command ends with code 0 within `seconds`. Throws JobsError if the text has
/// no {host} or no program.
HostProbe command_probe(const std::string& text, double seconds);

/// Watches which hosts of an agent answer. Jobs are started only on those hosts, and a job whose host has gone silent
/// is not blamed for its failure. Checks every kInterval and on request, on a background thread.
class HostWatch {
 public:
  static constexpr double kInterval = 10, kPatience = 10;  // seconds; kPatience: limit for the answers of one check

  /// Starts the thread. `wake` is called, from any thread, when a check has ended. The agent's own host counts as
  /// answering.
  HostWatch(const std::vector<AgentHost>& hosts, HostProbe probe, std::function<void()> wake, World& world,
            spdlog::logger& log);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  /// Returns the hosts that did not answer in the last check, if that has changed since the last call, and logs the
  /// change; otherwise empty.
  std::optional<std::set<std::string>> changed_silent_hosts();
  /// Returns the hosts that did not answer in a check that began at `since` or later. Requests a check if there was
  /// none, and returns empty until it ends.
  std::optional<std::set<std::string>> silent_since(double since);

 private:
  struct Check {
    double began = -1e300;
    std::set<std::string> silent;
    int64_t number = 0;
  };
  /// Checks the hosts; returns the seconds until the next call.
  double step();
  Check last_check();

  std::vector<std::string> probed_hosts_;  // hosts except the agent's own
  HostProbe probe_;
  World& world_;
  spdlog::logger& log_;
  std::function<void()> wake_;
  int64_t reported_check_ = 0;             // number of the check that changed_silent_hosts() last returned
  std::set<std::string> reported_silent_;  // hosts that changed_silent_hosts() last returned
  std::mutex mutex_;                       // guards the members below
  Check check_;
  std::unique_ptr<Background> background_;  // last: its thread uses the members above
};

}  // namespace foretime::jobs
