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

/// A host that the jobs of an agent run on.
struct AgentHost {
  std::string name;
  int64_t cpus = 1;  // that jobs may use there
  bool operator==(const AgentHost&) const = default;
};

/// "h1:4,h2:4", as mpirun's --host takes it; without a number, one CPU. Throws JobsError: no name, a number below 1, a
/// host twice.
std::vector<AgentHost> parse_hosts(const std::string& text);

/// Which of `hosts` do not answer.
using HostProbe = std::function<std::set<std::string>(const std::vector<std::string>& hosts)>;
/// Runs a command for each host, all at once: words with {host} in place of its name, without a shell. A host answers
/// whose command ends with code 0 within `seconds`. Throws JobsError where the text has no {host} or no program.
HostProbe command_probe(const std::string& text, double seconds);

/// Which hosts of an agent answer: jobs are started on those alone, and a job that failed where one of its hosts has
/// gone silent has not failed by its own doing. Looks every kInterval and where somebody asks, in a thread of its own.
class HostWatch {
 public:
  static constexpr double kInterval = 10, kPatience = 10;  // seconds; kPatience: for the answers of one look

  /// `wake` is called, from any thread, when a look is over. The agent's own host answers without being asked.
  HostWatch(const std::vector<AgentHost>& hosts, HostProbe probe, std::function<void()> wake, World& world,
            spdlog::logger& log);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  /// Those that did not answer in the last look, where that is news since the last call. Says so in the log.
  std::optional<std::set<std::string>> news();
  /// Those that did not answer in a look that began at `since` or later; asks for one where there was none, and is
  /// empty until it ends.
  std::optional<std::set<std::string>> silent_since(double since);

 private:
  struct Look {
    double began = -1e300;
    std::set<std::string> silent;
    int64_t number = 0;
  };
  double step();
  Look last();

  std::vector<std::string> asked_;  // hosts but this one
  HostProbe probe_;
  World& world_;
  spdlog::logger& log_;
  std::function<void()> wake_;
  int64_t told_ = 0;              // number of the look that news() told of
  std::set<std::string> silent_;  // as news() said last
  std::mutex mutex_;              // over what follows
  Look look_;
  std::unique_ptr<Background> background_;  // last: it uses all of the above
};

}  // namespace foretime::jobs
