#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace foretime::simulation {

/// Microseconds since the simulation began.
using Time = int64_t;
constexpr Time kMillisecond = 1000, kSecond = 1000 * kMillisecond, kMinute = 60 * kSecond, kHour = 60 * kMinute;

/// Thrown out of every wait of a task whose process was killed. Not a std::exception, so that no product code takes it
/// for an error that it can handle.
struct Killed {};

/// Tasks that run one at a time, each on a stack of its own, and a clock that jumps to the next moment at which one of
/// them has something to do. Every choice comes from one generator: a seed gives the same run, step by step.
class Scheduler {
 public:
  explicit Scheduler(uint64_t seed);
  ~Scheduler();  // ends all tasks
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Time now() const { return now_; }
  std::mt19937_64& random() { return random_; }
  double fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  int64_t integer(int64_t least, int64_t most);
  bool chance(double probability) { return fraction() < probability; }

  /// Tasks with the same process end together. Starts at the present moment, after what is due before. Returns the
  /// task's number.
  int64_t start(int64_t process, std::function<void()> body);
  /// Runs at a time, outside of all tasks: it must not wait.
  void at(Time time, std::function<void()> action);
  /// Kills a process: its tasks are unwound by Killed, and run no more. Not to be called by a task of that process.
  void kill(int64_t process);
  /// Ends one task, of the running task's process or another.
  void end(int64_t task);
  /// Whether the running task's process was killed: it is being unwound, and must have no effect any more.
  bool dying() const;
  /// Process of the running task; 0: none runs.
  int64_t process() const;

  /// Of the running task.
  void sleep_until(Time time);
  /// Until `wake` is called for the same address, or the time comes. True: it was woken.
  bool wait(const void* address, Time until);
  void wake(const void* address);

  /// Runs all that is due up to `end`, then stands there.
  void run_until(Time end);
  int64_t steps() const { return steps_; }

 private:
  struct Task;
  struct Due {
    Time time;
    int64_t order;
    std::shared_ptr<Task> task;
    std::function<void()> action;
  };
  struct Later {
    bool operator()(const Due& a, const Due& b) const { return std::tie(a.time, a.order) > std::tie(b.time, b.order); }
  };
  void resume(const std::shared_ptr<Task>& task);
  void unwind(const std::shared_ptr<Task>& task);
  void suspend();
  void schedule(Time time, const std::shared_ptr<Task>& task);
  static void enter(unsigned int low, unsigned int high);

  std::mt19937_64 random_;
  Time now_ = 0;
  int64_t order_ = 0, steps_ = 0;
  std::vector<Due> due_;                            // a heap
  std::map<int64_t, std::shared_ptr<Task>> tasks_;  // by number
  std::map<const void*, std::vector<std::shared_ptr<Task>>> waiting_;
  std::shared_ptr<Task> running_;
  std::vector<std::unique_ptr<char[]>> stacks_;  // for reuse
};

}  // namespace foretime::simulation
