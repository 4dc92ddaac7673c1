#include "jobs/agent/agent_heartbeat.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr size_t kReasons = 5;  // logged reasons of one outage

}  // namespace

void ReconnectTimer::failed(const std::string& what, double now) {
  if (failures_ == 0) since_ = now;
  if (logged_reasons_.size() < kReasons && logged_reasons_.insert(what).second)
    log_.warn("{}: {}; will retry, jobs continue", who_, what);
  const double wait = std::min(longest_, std::ldexp(1.0, std::min(failures_, 10)));
  ++failures_;
  next_ = now + world_.spread(wait);
}

void ReconnectTimer::worked(double now) {
  if (failures_ > 0) log_.info("{}: Redis is back after {:.1f} s", who_, now - since_);
  failures_ = 0;
  logged_reasons_.clear();
  next_ = 0;
}

Heartbeat::Heartbeat(std::shared_ptr<JobQueue> queue, Milliseconds term, AgentInfo info, std::function<void()> wake,
                     World& world, spdlog::logger& log)
    : queue_(std::move(queue)),
      term_(term),
      wake_(std::move(wake)),
      world_(world),
      log_(log),
      // A pause longer than a third of the term could cost a lease after Redis is back.
      link_("heartbeat", std::min(kLongestPause, std::chrono::duration<double>(term).count() / 3), world, log),
      info_(std::move(info)),
      last_tick_(world.steady_seconds()),
      background_(world.run_beside([this] { return step(); })) {}

Heartbeat::~Heartbeat() {
  background_.reset();
  if (link_.down()) return;
  info_.leaving = true;
  try {
    queue_->heartbeat_agent(info_);
  } catch (const std::exception&) {
    // Whoever watches sees when this agent was last heard of.
  }
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

void Heartbeat::tick(int64_t jobs, const std::string& trouble) {
  const std::lock_guard lock(mutex_);
  last_tick_ = world_.steady_seconds();
  info_.jobs = jobs;
  info_.trouble = trouble;
}

std::map<std::string, Directive> Heartbeat::take_directives() {
  const std::lock_guard lock(mutex_);
  return std::exchange(directives_, {});
}

double Heartbeat::step() {
  const double interval = std::chrono::duration<double>(term_).count() / 3;
  if (link_.open(world_.steady_seconds())) {
    try {
      renew_all();
      link_.worked(world_.steady_seconds());
    } catch (const std::exception& error) {
      link_.failed(error.what(), world_.steady_seconds());
    }
  }
  // Spread, or agents that were started together would always call together.
  return world_.spread(link_.down() ? interval / 4 : interval);
}

void Heartbeat::renew_all() {
  std::unique_lock lock(mutex_);
  const bool hanging = world_.steady_seconds() - last_tick_ > std::chrono::duration<double>(term_).count();
  if (hanging && !hanging_) log_.error("the agent's loop hangs: stops renewing its leases");
  hanging_ = hanging;
  if (hanging) return;
  const auto leases = leases_;
  const auto info = info_;
  lock.unlock();
  std::map<std::string, Directive> found;
  // Leases first: the register is for people.
  for (const auto& [token, lease] : leases) {
    const auto directive = queue_->renew(lease, term_);
    if (directive != Directive::proceed) found[token] = directive;
  }
  queue_->heartbeat_agent(info);
  lock.lock();
  for (const auto& [token, directive] : found)
    if (leases_.count(token) != 0) directives_[token] = directive;
  const bool any = !directives_.empty();
  lock.unlock();
  if (any) wake_();
}

}  // namespace foretime::jobs
