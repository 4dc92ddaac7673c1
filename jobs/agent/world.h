#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "jobs/progress/channel.h"
#include "jobs/supervisor/supervisor.h"

namespace foretime::jobs {

/// Controls the running command of an attempt and the channel over which it reports. No call blocks.
class RunningCommand {
 public:
  using Sink = std::function<void(std::string_view)>;
  virtual ~RunningCommand() = default;  // kills the remaining processes
  /// Adds the descriptors that become readable when another call here has something to do.
  virtual void add_descriptors(std::vector<pollfd>& descriptors) const = 0;
  /// Returns the exit status; empty while any process of the command lives.
  virtual std::optional<ExitStatus> poll_exit() = 0;
  /// Passes on the output since the last call: stdout and stderr to `output`, but stdout to `printed` if it is
  /// separate. Passes at most about 1 MiB of each, unless `all`.
  virtual void read_output(bool all, const Sink& output, const Sink& printed) = 0;
  /// Passes on the messages since the last call: valid ones to `message`, a description of each invalid one to `bad`.
  virtual void receive(const std::function<void(const ProgressMessage&)>& message,
                       const std::function<void(const std::string&)>& bad) = 0;
  /// Returns whether the channel is connected: messages may come, and the command can be asked to stop.
  virtual bool connected() const = 0;
  /// Asks the command over the channel to stop after a checkpoint.
  virtual void request_stop(const std::string& reason) = 0;
  virtual void terminate() = 0;  // SIGTERM, and SIGKILL after the grace time
  virtual void kill() = 0;       // SIGKILL to all processes of the command
};

/// Runs a function (the step) repeatedly on a thread until the destructor, which waits for a running step.
class Background {
 public:
  virtual ~Background() = default;
  virtual void wake() = 0;  // makes the next step due now
  /// Limits how long the destructor waits for a running step, since a call to hanging storage cannot be ended. The step
  /// may then outlive this object, and must own all its data.
  virtual void wait_at_most(double /*seconds*/) {}
};

constexpr double kNever = std::numeric_limits<double>::infinity();  // time of an event that never comes

/// Makes an agent's loop wait.
class Waiter {
 public:
  virtual ~Waiter() = default;
  /// Waits until a descriptor is ready, wake() is called, or `seconds` have passed. Sets `revents` of `descriptors`.
  virtual void wait(std::vector<pollfd>& descriptors, double seconds) = 0;
  /// Ends the running wait, or the next one. Callable from any thread; async-signal-safe.
  virtual void wake() = 0;
};

/// Provides the operating system's services to an agent: time, randomness, processes and waiting. Files (base/files.h)
/// and Redis (RedisTransport) have other interfaces. A simulation replaces it.
class World {
 public:
  virtual ~World() = default;
  /// Returns the seconds of a monotonic clock.
  virtual double steady_seconds() = 0;
  virtual uint64_t random_bits() = 0;
  /// Makes the channel in `folder`, adds its address to the command's environment and starts the command. Throws
  /// JobsError, or NodeError if this machine can start no command.
  virtual std::unique_ptr<RunningCommand> start(SupervisedProcess::Options command,
                                                const std::filesystem::path& folder) = 0;
  /// Calls `step` now on another thread, and again after the number of seconds that each call returns.
  virtual std::unique_ptr<Background> run_beside(std::function<double()> step) = 0;
  virtual std::unique_ptr<Waiter> make_waiter() = 0;

  /// Returns a random number in [0, 1).
  double random_fraction() { return (random_bits() >> 11) * 0x1p-53; }
  std::string random_hex(size_t digits);  // random hexadecimal digits
  /// Returns `seconds` changed at random by up to a quarter, so that many agents do not act at the same moment.
  double spread(double seconds) { return seconds * (0.75 + random_fraction() / 2); }
};

/// Returns the services of the real machine.
World& real_world();

}  // namespace foretime::jobs
