#include "jobs/agent/node_health.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace foretime::jobs {
namespace {

constexpr size_t kProbeBytes = 4096;
constexpr double kBeforeAll = -1e18;  // earlier than any check
constexpr double kLastLook = 5;       // seconds that the end waits for a look
constexpr double kAsleep = 3600;      // seconds that the thread sleeps where nothing is asked of it
constexpr int64_t kAcquitted = -1;

std::string find_trouble_of_runs(Files& files, const std::filesystem::path& runs) {
  try {
    if (!files.is_folder(runs)) return fmt::format("run root {}: is not there", runs.string());
    const auto path = runs / fmt::format(".probe-{}{}", host_name(), kAsideSuffix);
    std::string found;
    try {
      const auto file = files.open(path, Files::Open::replace);
      file->write(std::string(kProbeBytes, '.'));
      file->sync();
    } catch (const FileError& error) {
      found = fmt::format("run root {}: {}", runs.string(), error.what());
    }
    if (files.exists(path)) files.remove(path);
    return found;
  } catch (const FileError& error) {
    return fmt::format("run root {}: {}", runs.string(), error.what());
  }
}

/// Returns at most Limits::kTrouble bytes of printable text.
std::string bounded_text(const std::string& text) {
  auto clean = printable_utf8(text);
  size_t end = std::min(clean.size(), Limits::kTrouble);
  while (end < clean.size() && end > 0 && (static_cast<unsigned char>(clean[end]) & 0xC0) == 0x80) --end;
  clean.resize(end);
  return clean;
}

}  // namespace

std::string find_trouble(Files& files, const AllowedRoots& roots) {
  if (auto found = find_trouble_of_runs(files, roots.runs); !found.empty()) return found;
  for (const auto& root : roots.data)
    if (auto found = trouble_of_root(files, "data root", root); !found.empty()) return found;
  return roots.programs.empty() ? "" : trouble_of_root(files, "programs root", roots.programs);
}

NodeHealth::NodeHealth(std::string who, const AllowedRoots& roots, int64_t most_failures, std::function<void()> wake,
                       World& world, spdlog::logger& log)
    : who_(std::move(who)),
      roots_(roots),
      most_failures_(most_failures),
      world_(world),
      log_(log),
      looker_(new Looker{.roots = roots, .files = files(), .world = world, .wake = std::move(wake)}),
      background_(world.run_beside([looker = looker_] { return looker->step(); })) {}

NodeHealth::~NodeHealth() {
  {
    const std::lock_guard lock(looker_->mutex);
    looker_->wake = nullptr;
  }
  background_->wait_at_most(kLastLook);
}

double NodeHealth::Looker::step() {
  {
    const std::lock_guard lock(mutex);
    if (!std::exchange(wanted, false)) return kAsleep;
  }
  Look look{world.steady_seconds(), ""};
  try {
    look.trouble = find_trouble(files, roots);
  } catch (const std::exception& error) {
    look.trouble = error.what();
  }
  const std::lock_guard lock(mutex);
  last = std::move(look);
  if (wake) wake();
  return wanted ? 0 : kAsleep;
}

NodeHealth::Answer NodeHealth::seen_since(double since, double now) {
  Look last;
  {
    const std::lock_guard lock(looker_->mutex);
    last = looker_->last;
  }
  if (asked_at_ >= 0 && last.began >= asked_at_) asked_at_ = -1;
  if (last.began >= since) {
    looked_ = true;
    note(last.trouble, now);
    return last.trouble.empty() ? Answer::well : Answer::trouble;
  }
  if (asked_at_ < 0) {
    asked_at_ = now;
    {
      const std::lock_guard lock(looker_->mutex);
      looker_->wanted = true;
    }
    background_->wake();
  }
  if (now - asked_at_ < kHangs) return Answer::wait;
  note(fmt::format("run root {} or a root that is read: no answer for {:.0f} s", roots_.runs.string(), kHangs), now);
  return Answer::trouble;
}

void NodeHealth::note(const std::string& trouble, double now) {
  if (trouble == seen_) return;
  seen_ = trouble;
  if (!trouble.empty()) {
    pause(trouble, now);
    return;
  }
  log_.info("{}: claims jobs again; it was: {}", who_, trouble_);
  forget_failures();
}

void NodeHealth::pause(const std::string& why, double now) {
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  next_try_ = now + world_.spread(pause_);
  trying_ = false;
  tried_.clear();
  trouble_ = bounded_text(why);
  log_.warn("{}: claims no jobs: {}", who_, trouble_);
}

void NodeHealth::forget_failures() {
  failed_.clear();
  never_started_ = 0;
  trouble_.clear();
  pause_ = 0;
  trying_ = false;
  tried_.clear();
}

bool NodeHealth::may_claim(double now) {
  // The first look of all comes before the first claim; later ones come when a job is there to start.
  if (trouble_.empty()) return seen_since(kBeforeAll, now) == Answer::well;
  if (now < next_try_) return false;
  if (!trying_) {
    const auto answer = seen_since(next_try_, now);
    if (answer == Answer::wait) return false;
    if (answer == Answer::trouble) {
      pause_ = std::min(2 * pause_, kLongestPause);
      next_try_ = now + world_.spread(pause_);
      return false;
    }
    if (trouble_.empty()) return true;  // the roots were the trouble, and are well again
    trying_ = true;
    log_.info("{}: tries one job", who_);
  }
  if (tried_.empty()) return true;
  if (now - tried_at_ < kSoon) return false;
  log_.info("{}: job {}, which was tried, runs: claims jobs again", who_, tried_);
  forget_failures();
  return true;
}

void NodeHealth::claimed(const std::string& job, double now) {
  if (!trying_) return;
  tried_ = job;
  tried_at_ = now;
}

void NodeHealth::ended(const Lease& lease, const JobResult& result, double now) {
  const auto& job = lease.job;
  const auto outcome = result.outcome;
  const bool soon = result.seconds < kSoon, tried = trying_ && job == tried_;
  const bool by_storage = ended_by_storage(result);
  const bool failed =
      by_storage || outcome == Outcome::error || (outcome == Outcome::failed && result.exit_code == kData);
  const bool elsewhere = !by_storage && !lease.failed_on.empty() && lease.failed_on != lease.agent;
  if (failed && (soon || by_storage) && !elsewhere) {
    const auto before = failed_.find(job);
    if (before != failed_.end() && (before->second == kAcquitted || lease.attempt > before->second + 1)) {
      acquit(job);  // the job has failed elsewhere meanwhile
      if (tried) tried_.clear();
      return;
    }
    failed_[job] = by_storage ? lease.attempt - 1 : lease.attempt;  // the storage costs the job no attempt
    count_failure(job, result.error, now);
  } else if (outcome == Outcome::succeeded || outcome == Outcome::stopped || !soon) {
    if (tried) log_.info("{}: job {}, which was tried, ran: claims jobs again", who_, job);
    if (tried || trouble_.empty()) forget_failures();
  } else if (tried) {
    tried_.clear();  // a wrong setting, say, or it fails everywhere: that tells nothing, and another one is tried
  }
}

std::vector<std::string> NodeHealth::suspects() const {
  std::vector<std::string> jobs;
  if (trouble_.empty() || !seen_.empty()) return jobs;
  for (const auto& [job, failures] : failed_) {
    if (failures != kAcquitted && jobs.size() < kSuspects) jobs.push_back(job);
  }
  return jobs;
}

void NodeHealth::heard_of(const std::string& job, int64_t failures) {
  const auto found = failed_.find(job);
  if (found != failed_.end() && found->second != kAcquitted && failures > found->second) acquit(job);
}

void NodeHealth::acquit(const std::string& job) {
  failed_[job] = kAcquitted;
  const auto acquitted =
      std::count_if(failed_.begin(), failed_.end(), [](const auto& entry) { return entry.second == kAcquitted; });
  if (trouble_.empty() || !seen_.empty() || 2 * static_cast<size_t>(acquitted) < failed_.size()) return;
  log_.info("{}: {} of {} jobs that failed here failed elsewhere too: claims jobs again", who_, acquitted,
            failed_.size());
  forget_failures();
}

void NodeHealth::could_not_start(const std::string& job, const std::string& why, double now) {
  ++never_started_;
  count_failure(job, why, now);
}

void NodeHealth::count_failure(const std::string& job, const std::string& why, double now) {
  const bool tried = trying_ && job == tried_;
  if (most_failures_ == 0 || (!trouble_.empty() && !tried)) return;
  const auto blamed =
      std::count_if(failed_.begin(), failed_.end(), [](const auto& entry) { return entry.second != kAcquitted; });
  const auto failures = std::max<int64_t>(blamed, never_started_);
  if (!tried && failures < most_failures_) return;
  pause(fmt::format("{} jobs in a row failed within {:.0f} s or by the storage, the last one, {}: {}", failures, kSoon,
                    job, why.substr(0, why.find('\n'))),
        now);
}

}  // namespace foretime::jobs
