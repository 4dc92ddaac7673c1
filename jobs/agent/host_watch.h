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

#include "base/no_copy.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Describes a host that the jobs of an agent run on.
struct AgentHost {
  std::string name;
  int64_t cpus = 1;  // CPUs for jobs on this host
  bool operator==(const AgentHost&) const = default;
};

/// Parses hosts in the form of mpirun's --host: "h1:4,h2:4"; a host without a number has one CPU. Throws JobsError for
/// an empty or invalid name, a number outside of 1 to 65536, or a repeated host.
std::vector<AgentHost> parse_hosts(const std::string& text);

/// Returns the hosts in `hosts` that do not answer.
using HostProbe = std::function<std::set<std::string>(const std::vector<std::string>& hosts)>;
/// Returns a probe that runs one command for each host, all at the same time. The command is `text` (split_words) with
/// {host} replaced by the host's name. A host answers if its command ends with code 0 within `seconds`. Throws
/// JobsError if the text has no {host}, no program before it, or an open quote.
HostProbe command_probe(const std::string& text, double seconds);

/// Watches which hosts of an agent answer. Jobs are started only on those hosts, and a job whose host has gone silent
/// is not blamed for its failure. Checks every kInterval and on request, on a background thread.
class HostWatch : NoCopy {
 public:
  static constexpr double kInterval = 10, kPatience = 10;  // seconds; kPatience: limit for the answers of one check

  /// Starts the thread. `wake` is called, from any thread, when a check has ended. This host always answers.
  HostWatch(const std::vector<AgentHost>& hosts, HostProbe probe, std::function<void()> wake, World& world,
            spdlog::logger& log);
  ~HostWatch();

  /// Returns the hosts that did not answer in the last check, after the first check and if they have changed since the
  /// last call, and logs the change. Otherwise returns empty.
  std::optional<std::set<std::string>> changed_silent_hosts();
  /// Returns the hosts that did not answer in a check that began at `since` or later. Requests a check if there was
  /// none, and returns empty until it ends.
  std::optional<std::set<std::string>> silent_since(double since);

 private:
  struct Check {
    double began = -1e300;         // time of World::steady_seconds; earlier than any time: no check yet
    std::set<std::string> silent;  // hosts that did not answer
    int64_t number = 0;            // number of the check, from 1; 0: no check yet
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
