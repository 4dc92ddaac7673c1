#include "jobs/agent/reaper.h"

#include <algorithm>
#include <utility>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kReapInterval = 3.0;          // seconds
constexpr double kLongestReapInterval = 60.0;  // seconds, for one agent among many
constexpr double kWarningInterval = 300.0;     // seconds
constexpr int kReapBatches = 20;

}  // namespace

Reaper::Reaper(std::string agent, QueueLink& link, World& world, spdlog::logger& log)
    : agent_(std::move(agent)), link_(link), world_(world), log_(log) {}

void Reaper::reap(double now, const std::function<void()>& between) {
  // All agents together reap about every three seconds.
  const double interval = std::min(kReapInterval * std::max<int64_t>(agents_, 1), kLongestReapInterval);
  next_ = now + world_.spread(interval);
  try {
    link_.reach([&] {
      for (int i = 0; i < kReapBatches; ++i) {
        const auto counts = link_.queue().reap();
        agents_ = counts.agents;
        if (!counts.more) break;
        between();
      }
      if (now >= next_warning_) {
        next_warning_ = now + kWarningInterval;
        if (const auto warning = link_.queue().warning(); !warning.empty()) log_.warn("agent {}: {}", agent_, warning);
      }
    });
    may_reap_ = true;
  } catch (const JobsError& error) {
    if (std::exchange(may_reap_, false))
      log_.error("agent {}: cannot take back expired leases, other agents will: {}", agent_, error.what());
    next_ = now + world_.spread(kRefusedInterval);
  }
}

}  // namespace foretime::jobs
