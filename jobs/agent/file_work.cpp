#include "jobs/agent/file_work.h"

namespace foretime::jobs {

constexpr double kNothingToDo = 3600, kLastWait = 0.05;  // seconds

FileWork::FileWork(std::function<void()> wake, World& world)
    : world_(world),
      shared_(new Shared{.files = files(), .world = world, .wake = std::move(wake)}),
      background_(world.run_beside([shared = shared_] { return shared->step(); })) {}

FileWork::~FileWork() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->wake = nullptr;
    shared_->pieces.clear();
  }
  background_->wait_at_most(kLastWait);
}

void FileWork::add(std::function<void()> piece) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->pieces.empty()) shared_->waiting_since = world_.steady_seconds();
    shared_->pieces.push_back(std::move(piece));
  }
  background_->wake();
}

double FileWork::hangs_at() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->waiting_since + kPatience;
}

double FileWork::Shared::step() {
  const FilesScope scope(files);
  std::unique_lock lock(mutex);
  while (!pieces.empty()) {
    const auto piece = pieces.front();
    lock.unlock();
    piece();
    lock.lock();
    if (!pieces.empty()) pieces.pop_front();
    waiting_since = pieces.empty() ? kNever : world.steady_seconds();
    if (wake) wake();
  }
  return kNothingToDo;
}

}  // namespace foretime::jobs
