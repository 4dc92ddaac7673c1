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
constexpr double kLastCheck = 5;      // seconds that the end waits for a look
constexpr double kAsleep = 3600;      // seconds that the thread sleeps where nothing is asked of it
constexpr int64_t kExonerated = -1;

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
  while (end < clean.size() && end > 0 && continues_character(clean[end])) --end;
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
      checker_(new Checker{.roots = roots, .files = files(), .world = world, .wake = std::move(wake)}),
      background_(world.run_beside([checker = checker_] { return checker->step(); })) {}

NodeHealth::~NodeHealth() {
  {
    const std::lock_guard lock(checker_->mutex);
    checker_->wake = nullptr;
  }
  background_->wait_at_most(kLastCheck);
}

double NodeHealth::Checker::step() {
  {
    const std::lock_guard lock(mutex);
    if (!std::exchange(wanted, false)) return kAsleep;
  }
  Check check{world.steady_seconds(), ""};
  try {
    check.trouble = find_trouble(files, roots);
  } catch (const std::exception& error) {
    check.trouble = error.what();
  }
  const std::lock_guard lock(mutex);
  last = std::move(check);
  if (wake) wake();
  return wanted ? 0 : kAsleep;
}

NodeHealth::Answer NodeHealth::checked_since(double since, double now) {
  Check last;
  {
    const std::lock_guard lock(checker_->mutex);
    last = checker_->last;
  }
  if (check_requested_at_ >= 0 && last.began >= check_requested_at_) check_requested_at_ = -1;
  if (last.began >= since) {
    checked_ = true;
    handle_check(last.trouble, now);
    return last.trouble.empty() ? Answer::well : Answer::trouble;
  }
  if (check_requested_at_ < 0) {
    check_requested_at_ = now;
    {
      const std::lock_guard lock(checker_->mutex);
      checker_->wanted = true;
    }
    background_->wake();
  }
  if (now - check_requested_at_ < kHangs) return Answer::wait;
  handle_check(fmt::format("run root {} or a root that is read: no answer for {:.0f} s", roots_.runs.string(), kHangs),
               now);
  return Answer::trouble;
}

void NodeHealth::handle_check(const std::string& trouble, double now) {
  if (trouble == last_found_) return;
  last_found_ = trouble;
  if (!trouble.empty()) {
    pause(trouble, now);
    return;
  }
  log_.info("{}: claims jobs again after: {}", who_, trouble_);
  forget_failures();
}

void NodeHealth::pause(const std::string& why, double now) {
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  next_try_ = now + world_.spread(pause_);
  may_try_job_ = false;
  trial_job_.clear();
  trouble_ = bounded_text(why);
  log_.warn("{}: claims no jobs: {}", who_, trouble_);
}

void NodeHealth::forget_failures() {
  failed_.clear();
  failed_starts_ = 0;
  trouble_.clear();
  pause_ = 0;
  may_try_job_ = false;
  trial_job_.clear();
}

bool NodeHealth::may_claim(double now) {
  // The first look of all comes before the first claim; later ones come when a job is there to start.
  if (trouble_.empty()) return checked_since(kBeforeAll, now) == Answer::well;
  if (now < next_try_) return false;
  if (!may_try_job_) {
    const auto answer = checked_since(next_try_, now);
    if (answer == Answer::wait) return false;
    if (answer == Answer::trouble) {
      pause_ = std::min(2 * pause_, kLongestPause);
      next_try_ = now + world_.spread(pause_);
      return false;
    }
    if (trouble_.empty()) return true;  // the roots were the trouble, and are well again
    may_try_job_ = true;
    log_.info("{}: claims one job as a trial", who_);
  }
  if (trial_job_.empty()) return true;
  if (now - trial_started_at_ < kSoon) return false;
  log_.info("{}: the trial job {} runs: claims jobs again", who_, trial_job_);
  forget_failures();
  return true;
}

void NodeHealth::claimed(const std::string& job, double now) {
  if (!may_try_job_) return;
  trial_job_ = job;
  trial_started_at_ = now;
}

void NodeHealth::ended(const Lease& lease, const JobResult& result, double now) {
  const auto& job = lease.job;
  const auto outcome = result.outcome;
  const bool soon = result.seconds < kSoon, tried = may_try_job_ && job == trial_job_;
  const bool by_storage = ended_by_storage(result);
  const bool failed =
      by_storage || outcome == Outcome::error || (outcome == Outcome::failed && result.exit_code == kData);
  const bool elsewhere = !by_storage && !lease.failed_on.empty() && lease.failed_on != lease.agent;
  if (failed && (soon || by_storage) && !elsewhere) {
    const auto before = failed_.find(job);
    if (before != failed_.end() && (before->second == kExonerated || lease.attempt > before->second + 1)) {
      exonerate(job);  // the job has failed elsewhere meanwhile
      if (tried) trial_job_.clear();
      return;
    }
    failed_[job] = by_storage ? lease.attempt - 1 : lease.attempt;  // the storage costs the job no attempt
    pause_at_limit(job, result.error, now);
  } else if (outcome == Outcome::succeeded || outcome == Outcome::stopped || !soon) {
    if (tried) log_.info("{}: the trial job {} was successful or ran for long enough: claims jobs again", who_, job);
    if (tried || trouble_.empty()) forget_failures();
  } else if (tried) {
    trial_job_.clear();  // a wrong setting, say, or it fails everywhere: that tells nothing, and another one is tried
  }
}

std::vector<std::string> NodeHealth::blamed_jobs() const {
  std::vector<std::string> jobs;
  if (trouble_.empty() || !last_found_.empty()) return jobs;
  for (const auto& [job, failures] : failed_)
    if (failures != kExonerated && jobs.size() < kBlamedJobs) jobs.push_back(job);
  return jobs;
}

void NodeHealth::update_failures(const std::string& job, int64_t failures) {
  const auto found = failed_.find(job);
  if (found != failed_.end() && found->second != kExonerated && failures > found->second) exonerate(job);
}

void NodeHealth::exonerate(const std::string& job) {
  failed_[job] = kExonerated;
  const auto exonerated =
      std::count_if(failed_.begin(), failed_.end(), [](const auto& entry) { return entry.second == kExonerated; });
  if (trouble_.empty() || !last_found_.empty() || 2 * exonerated < std::ssize(failed_)) return;
  log_.info("{}: {} of {} jobs that failed on this machine failed on others too: claims jobs again", who_, exonerated,
            failed_.size());
  forget_failures();
}

void NodeHealth::could_not_start(const std::string& job, const std::string& why, double now) {
  ++failed_starts_;
  pause_at_limit(job, why, now);
}

void NodeHealth::pause_at_limit(const std::string& job, const std::string& why, double now) {
  const bool tried = may_try_job_ && job == trial_job_;
  if (most_failures_ == 0 || (!trouble_.empty() && !tried)) return;
  const auto blamed =
      std::count_if(failed_.begin(), failed_.end(), [](const auto& entry) { return entry.second != kExonerated; });
  const auto failures = std::max<int64_t>(blamed, failed_starts_);
  if (!tried && failures < most_failures_) return;
  pause(fmt::format("{} jobs in a row failed within {:.0f} s or by the storage, the last one, {}: {}", failures, kSoon,
                    job, why.substr(0, why.find('\n'))),
        now);
}

}  // namespace foretime::jobs
