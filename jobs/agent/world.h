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

/// The running command of an attempt, and the channel over which it reports. Nothing here blocks.
class RunningCommand {
 public:
  using Sink = std::function<void(std::string_view)>;
  virtual ~RunningCommand() = default;  // kills what is left of it
  /// What becomes readable when there is something to do here.
  virtual void add_descriptors(std::vector<pollfd>& descriptors) const = 0;
  /// Empty while anything of it lives.
  virtual std::optional<ExitStatus> poll_exit() = 0;
  /// What it wrote since the last call: stdout and stderr to `output`, or stdout to `printed` where that was asked for.
  /// At most about a MiB, unless `all`.
  virtual void read_output(bool all, const Sink& output, const Sink& printed) = 0;
  /// What it reported since the last call.
  virtual void receive(const std::function<void(const ProgressMessage&)>& message,
                       const std::function<void(const std::string&)>& bad) = 0;
  /// Whether it holds the channel: more may come, and it can be asked to stop.
  virtual bool connected() const = 0;
  /// Asks it over the channel to stop after a checkpoint.
  virtual void request_stop(const std::string& reason) = 0;
  virtual void terminate() = 0;  // SIGTERM, and SIGKILL after the grace time
  virtual void kill() = 0;
};

/// Something that runs beside the agent's loop until it is destroyed, which waits for a step that runs.
class Background {
 public:
  virtual ~Background() = default;
  /// The next step is due now.
  virtual void wake() = 0;
  /// From now on the destructor waits no longer than this for a step that runs, which may then outlive all but what it
  /// owns itself: a call to storage that hangs cannot be ended.
  virtual void wait_at_most(double /*seconds*/) {}
};

constexpr double kNever = std::numeric_limits<double>::infinity();  // as a time

/// Where an agent's loop waits.
class Waiter {
 public:
  virtual ~Waiter() = default;
  /// Returns when a descriptor is ready, after wake(), or after the time; sets `revents`.
  virtual void wait(std::vector<pollfd>& descriptors, double seconds) = 0;
  /// Ends the wait that runs, or the next one. From any thread, and async-signal-safe.
  virtual void wake() = 0;
};

/// What an agent takes from the machine beneath it, beside files (base/files.h) and Redis (RedisTransport): time,
/// randomness, processes, and waiting. A simulation puts another one in its place.
class World {
 public:
  virtual ~World() = default;
  /// Of a clock that never goes back.
  virtual double steady_seconds() = 0;
  virtual uint64_t random_bits() = 0;
  /// Makes the channel in `folder`, adds its address to the command's environment and starts the command. Throws
  /// JobsError where that fails.
  virtual std::unique_ptr<RunningCommand> start(SupervisedProcess::Options command,
                                                const std::filesystem::path& folder) = 0;
  /// Calls `step` now, and again after as many seconds as it answers, beside the caller.
  virtual std::unique_ptr<Background> run_beside(std::function<double()> step) = 0;
  virtual std::unique_ptr<Waiter> make_waiter() = 0;

  /// In [0, 1).
  double random_fraction() { return static_cast<double>(random_bits() >> 11) * 0x1p-53; }
  std::string random_hex(size_t digits);
  /// A time of about so many seconds, a quarter more or less, so that many agents do not act at one moment.
  double spread(double seconds) { return seconds * (0.75 + random_fraction() / 2); }
};

/// The machine's own.
World& real_world();

}  // namespace foretime::jobs
