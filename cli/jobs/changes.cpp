#include "cli/jobs/changes.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::cli {
namespace {

std::string paused_thing(const std::string& sweep) { return sweep.empty() ? "the queue" : "sweep " + sweep; }

Change retry_sweep(QueueAccess& access, const std::string& sweep) {
  auto left = access.reader().ids_of_sweep(sweep);
  int64_t count = 0;
  std::map<std::string, std::string> why;  // a job was refused
  // Those that were cancelled because of another come back with that one. One that needs a job which is retried after
  // it is refused, and its turn comes once more.
  for (bool any = true; std::exchange(any, false);) {
    std::vector<std::string> refused;
    for (const auto& job : access.reader().jobs(left)) {
      if (!is_final(job.state) || job.state == jobs::JobState::succeeded) continue;
      try {
        access.queue().retry(job.spec.id);
        ++count;
        any = true;
      } catch (const jobs::JobRefused& error) {
        refused.push_back(job.spec.id);
        why[job.spec.id] = error.what();
      }
    }
    left = std::move(refused);
  }
  Change change{fmt::format("sweep {}: {} jobs wait again", sweep, count)};
  for (const auto& id : left) change.warnings.push_back(why.at(id));
  return change;
}

}  // namespace

/// Pausing acts on sweeps and on the whole queue; a job alone is cancelled and retried.
std::string sweep_to_pause(QueueAccess& access, const std::string& prefix, const char* verb) {
  if (prefix.empty()) return "";
  if (access.reader().is_sweep(prefix)) return access.reader().resolve_sweep(prefix);
  throw jobs::JobRefused(
      "{} {}: job {} is not a sweep; {} takes sweeps, or no id for the whole queue (one job: "
      "foretime cancel, later foretime retry)",
      verb, prefix, access.reader().resolve_job(prefix), verb);
}

Change cancel(QueueAccess& access, const std::string& prefix) {
  if (access.reader().is_sweep(prefix)) {
    const auto id = access.reader().resolve_sweep(prefix);
    return {fmt::format("sweep {}: {} jobs cancelled or asked to stop", id, access.queue().cancel_sweep(id))};
  }
  const auto id = access.reader().resolve_job(prefix);
  switch (access.queue().cancel(id)) {
    case jobs::CancelOutcome::cancelled: return {fmt::format("job {}: cancelled", id)};
    case jobs::CancelOutcome::requested:
      return {fmt::format("job {}: runs; it ends after its next step, with a checkpoint", id)};
    case jobs::CancelOutcome::already_final: break;
  }
  return {fmt::format("job {}: had ended already", id)};
}

Change pause(QueueAccess& access, const std::string& prefix) {
  const auto sweep = sweep_to_pause(access, prefix, "pause");
  access.queue().pause(sweep);
  return {paused_thing(sweep) + ": paused; running jobs continue, no other job starts"};
}

Change resume(QueueAccess& access, const std::string& prefix) {
  const auto sweep = sweep_to_pause(access, prefix, "resume");
  access.queue().resume(sweep);
  return {paused_thing(sweep) + ": resumed"};
}

Change retry(QueueAccess& access, const std::string& prefix) {
  if (access.reader().is_sweep(prefix)) return retry_sweep(access, access.reader().resolve_sweep(prefix));
  const auto id = access.reader().resolve_job(prefix);
  access.queue().retry(id);
  return {fmt::format("job {}: waits again", id)};
}

Change set_priority(QueueAccess& access, const std::string& prefix, int64_t priority) {
  if (!access.reader().is_sweep(prefix)) {
    const auto id = access.reader().resolve_job(prefix);
    access.queue().set_priority(id, priority);
    return {fmt::format("job {}: priority {}", id, priority)};
  }
  const auto sweep = access.reader().resolve_sweep(prefix);
  int64_t count = 0;
  for (const auto& job : access.reader().jobs(access.reader().ids_of_sweep(sweep))) {
    if (is_final(job.state)) continue;
    try {
      access.queue().set_priority(job.spec.id, priority);
      ++count;
    } catch (const jobs::JobRefused&) {
      // It has ended since it was read.
    }
  }
  return {fmt::format("sweep {}: {} jobs have priority {}", sweep, count, priority)};
}

}  // namespace foretime::cli
