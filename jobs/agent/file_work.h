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
#include "jobs/agent/world.h"

namespace foretime::jobs {

/// Returns whether a piece of file work has ended, so that its value or exception can be taken.
template <class Value>
bool is_ready(const std::future<Value>& piece) {
  return piece.valid() && piece.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// The file work of one attempt, on a thread of its own, one piece after the other. An agent's loop never waits for a
/// piece: where storage hangs (a file server that is away, a file system that the job itself has mounted), one job
/// hangs and no other.
class FileWork {
 public:
  static constexpr double kPatience = 120;  // seconds that a piece may take

  /// `wake` is called, from any thread, when a piece has ended.
  FileWork(std::function<void()> wake, World& world);
  ~FileWork();  // waits for no piece that hangs
  FileWork(const FileWork&) = delete;
  FileWork& operator=(const FileWork&) = delete;

  /// Adds a piece of work and returns at once. A piece that hangs may outlive the agent, so `call` owns all that it
  /// uses.
  template <class Call>
  std::future<std::invoke_result_t<Call>> run(Call call) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Call>()>>(std::move(call));
    auto piece = task->get_future();
    add([task = std::move(task)] { (*task)(); });
    return piece;
  }
  /// Returns when the patience with the piece that runs ends; kNever if none runs.
  double hangs_at() const;

 private:
  struct Shared {
    double step();
    Files& files;  // those of the thread that made this
    World& world;
    std::mutex mutex{};            // over what follows
    std::function<void()> wake{};  // empty: nobody is there any more
    std::deque<std::function<void()>> pieces{};
    double waiting_since = kNever;  // for the first of the pieces
  };
  void add(std::function<void()> piece);

  World& world_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Background> background_;
};

}  // namespace foretime::jobs
