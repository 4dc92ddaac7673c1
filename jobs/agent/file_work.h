#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "base/files.h"
#include "base/no_copy.h"
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Returns whether a piece of file work has ended, so that its value can be taken; false for an empty future.
template <class Value>
bool is_ready(const std::future<Value>& piece) {
  return piece.valid() && piece.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// Runs the file work of one attempt on a separate thread, one piece after another. An agent's loop never waits for a
/// piece: if storage hangs (an unreachable file server, a file system of the job), only this job hangs.
class FileWork : NoCopy {
 public:
  static constexpr double kPatience = 120;  // seconds for one piece

  /// Starts the thread. `wake` is called, from any thread, when a piece has ended.
  FileWork(std::function<void()> wake, World& world);
  ~FileWork();  // drops pieces that have not begun; waits at most 0.05 s for the running one

  /// Adds a piece of work and returns its future at once. A piece may outlive the agent: `call` must own its data.
  template <class Call>
  std::future<std::invoke_result_t<Call>> run(Call call) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Call>()>>(std::move(call));
    auto piece = task->get_future();
    add([task = std::move(task)] { (*task)(); });
    return piece;
  }
  /// Returns the time at which the running piece exceeds kPatience; kNever if none runs.
  double hangs_at() const;

 private:
  struct Shared {
    /// Runs all pieces; returns the seconds until the next call.
    double step();
    Files& files;  // file interface of the thread that made this object
    World& world;
    std::mutex mutex{};            // guards the members below
    std::function<void()> wake{};  // empty: the owner is gone
    std::deque<std::function<void()>> pieces{};
    double waiting_since = kNever;  // time at which the running piece began; kNever: none runs
  };
  void add(std::function<void()> piece);

  World& world_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Background> background_;
};

}  // namespace foretime::jobs
