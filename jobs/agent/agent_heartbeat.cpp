#include "jobs/agent/agent_heartbeat.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/process.h"
#include "jobs/error.h"

namespace foretime::jobs {
void Link::failed(const std::string& what, double now) {
  if (failures_ == 0) {
    since_ = now;
    log_.warn("{}: {}; trying again, jobs go on meanwhile", who_, what);
  }
  const double wait = std::min(longest_, std::ldexp(1.0, std::min(failures_, 10)));
  ++failures_;
  next_ = now + wait * (0.75 + random_fraction() / 2);
}

void Link::worked(double now) {
  if (failures_ > 0) log_.info("{}: Redis is back after {:.1f} s", who_, now - since_);
  failures_ = 0;
  next_ = 0;
}

double random_fraction() {
  thread_local std::mt19937_64 generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

std::string random_hex(size_t digits) {
  std::random_device device;
  std::string text;
  for (size_t i = 0; i < digits; ++i) text += "0123456789abcdef"[device() % 16];
  return text;
}

Heartbeat::Heartbeat(std::shared_ptr<JobQueue> queue, Milliseconds term, AgentInfo info, spdlog::logger& log)
    : queue_(std::move(queue)),
      term_(term),
      info_(std::move(info)),
      log_(log),
      last_tick_(steady_seconds()),
      thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Heartbeat::hold(const Lease& lease) {
  const std::lock_guard lock(mutex_);
  leases_[lease.token] = lease;
}

void Heartbeat::release(const Lease& lease) {
  const std::lock_guard lock(mutex_);
  leases_.erase(lease.token);
  directives_.erase(lease.token);
}

void Heartbeat::tick(int64_t jobs) {
  const std::lock_guard lock(mutex_);
  last_tick_ = steady_seconds();
  info_.jobs = jobs;
}

std::map<std::string, Directive> Heartbeat::take_directives() {
  const std::lock_guard lock(mutex_);
  return std::exchange(directives_, {});
}

void Heartbeat::run() {
  const double interval = std::chrono::duration<double>(term_).count() / 3;
  // A pause longer than the interval could cost a lease after Redis is back.
  Link link("heartbeat", std::min(kLongestPause, interval), log_);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (link.open(steady_seconds())) {
      try {
        renew_all(lock);
        link.worked(steady_seconds());
      } catch (const std::exception& error) {
        if (!lock.owns_lock()) lock.lock();
        link.failed(error.what(), steady_seconds());
      }
    }
    const double pause = link.down() ? interval / 4 : interval;
    wake_.wait_for(lock, std::chrono::duration<double>(pause), [this] { return stop_; });
  }
  info_.leaving = true;
  const auto info = info_;
  lock.unlock();
  if (link.down()) return;
  try {
    queue_->heartbeat_agent(info);
  } catch (const std::exception&) {
    // Whoever watches sees when this agent was last heard of.
  }
}

void Heartbeat::renew_all(std::unique_lock<std::mutex>& lock) {
  const bool hanging = steady_seconds() - last_tick_ > std::chrono::duration<double>(term_).count();
  if (hanging && !hanging_) log_.error("the agent's loop hangs: its leases are not renewed any more");
  hanging_ = hanging;
  if (hanging) return;
  const auto leases = leases_;
  const auto info = info_;
  // Never locked over a call to Redis: the loop must not wait for it here.
  lock.unlock();
  std::map<std::string, Directive> found;
  queue_->heartbeat_agent(info);
  for (const auto& [token, lease] : leases) {
    const auto directive = queue_->renew(lease, term_);
    if (directive != Directive::proceed) found[token] = directive;
  }
  lock.lock();
  for (const auto& [token, directive] : found) {
    if (leases_.count(token) != 0) directives_[token] = directive;
  }
}

}  // namespace foretime::jobs
