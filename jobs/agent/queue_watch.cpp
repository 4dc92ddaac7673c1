#include "jobs/agent/queue_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kReapInterval = 3.0;          // seconds
constexpr double kLongestReapInterval = 60.0;  // seconds, for one agent among many
constexpr double kWarningInterval = 300.0;     // seconds
constexpr int kReapBatches = 20;

}  // namespace

bool Backlog::is_drained(JobQueue& queue) {
  // Before the look at what waits: a job that comes to wait in between is then seen there.
  const bool quiet =
      options_.until_empty && queue.none_in({JobState::blocked, JobState::delayed, JobState::held, JobState::active});
  int64_t too_large = 0, of_programs = 0, all = 0;
  Demand example;
  for (const auto& [demand, jobs] : queue.waiting()) {
    all += jobs;
    if (!programs_.runs(demand.program)) {
      of_programs += jobs;
    } else if (demand.cpus > options_.cpus || demand.gpus > std::ssize(options_.gpus)) {
      too_large += jobs;
      example = demand;
    }
  }
  std::string warning;
  if (too_large > 0)
    warning = fmt::format(
        "{} waiting jobs need more than this agent has, for example {} CPUs and {} GPUs: see --cpus and --gpus",
        too_large, example.cpus, example.gpus);
  if (of_programs > 0) {
    warning += warning.empty() ? "" : "; ";
    warning += !programs_.path().empty()
                   ? fmt::format("{} waiting jobs need programs that are missing in --programs {}", of_programs,
                                 programs_.path().string())
                   : fmt::format(
                         "{} waiting jobs run user programs: start an agent with --programs FOLDER, "
                         "the folder with these programs, if you trust everybody who may submit",
                         of_programs);
  }
  if (!warning.empty() && warning != warning_) log_.warn("agent {}: {}", options_.name, warning);
  warning_ = warning;
  return quiet && too_large + of_programs == all;
}

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
    is_refused_ = false;
  } catch (const JobsError& error) {
    if (!std::exchange(is_refused_, true))
      log_.error("agent {}: cannot take back expired leases, other agents will: {}", agent_, error.what());
    next_ = now + world_.spread(kRefusedInterval);
  }
}

StoreWatch::StoreWatch(std::string agent, std::string identity, QueueLink& link, World& world, spdlog::logger& log)
    : agent_(std::move(agent)), identity_(std::move(identity)), link_(link), world_(world), log_(log) {}

void StoreWatch::check(double now) {
  next_ = now + world_.spread(trouble_.empty() ? kCheckInterval : kTroubleInterval);
  std::optional<StoreState> state;
  try {
    link_.reach([&] { state = link_.queue().store_state(); });
    is_refused_ = false;
  } catch (const JobsError& error) {
    if (!std::exchange(is_refused_, true))
      log_.error("agent {}: cannot check whether Redis has lost jobs: {}", agent_, error.what());
    next_ = now + world_.spread(kRefusedInterval);
  }
  if (!state) return;
  auto found = trouble_of(*state);
  if (found == trouble_) return;
  if (found.empty()) log_.info("agent {}: claims jobs again", agent_);
  else log_.error("agent {}: claims no jobs: {}", agent_, found);
  trouble_ = std::move(found);
  if (!trouble_.empty()) next_ = std::min(next_, now + kTroubleInterval);
}

std::string StoreWatch::trouble_of(const StoreState& state) {
  if (identity_.empty()) identity_ = state.identity;
  if (state.evicted_keys) {
    const int64_t keys = *state.evicted_keys, before = evicted_before_.value_or(keys);
    evicted_ += keys < before ? keys : keys - before;  // less: Redis was started again
    evicted_before_ = keys;
  }
  if (state.identity != identity_ && state.identity.empty())
    return fmt::format(
        "the queue was emptied ({}): its identity {} is gone, and so are its jobs; submit them again, and then start "
        "the agents again",
        evicted_ > 0 ? fmt::format("Redis has evicted {} keys, by its maxmemory-policy {}", evicted_,
                                   printable(state.eviction_policy))
                     : "by FLUSHALL, for example",
        printable(identity_));
  if (state.identity != identity_)
    return fmt::format(
        "Redis now holds another queue, of identity {}, and this agent has joined {}; "
        "start the agent again to work on it",
        printable(state.identity), printable(identity_));
  if (!state.eviction_policy.empty() && state.eviction_policy != "noeviction")
    return fmt::format(
        "maxmemory-policy of Redis is {}, so it may drop jobs{}; redis-cli config set maxmemory-policy noeviction",
        printable(state.eviction_policy),
        evicted_ > 0 ? fmt::format(", and it has evicted {} keys since this agent looked first", evicted_) : "");
  if (evicted_ > 0)
    return fmt::format(
        "Redis has evicted {} keys since this agent looked first, so jobs may be missing; "
        "submit them again, and then start the agents again",
        evicted_);
  return "";
}

}  // namespace foretime::jobs
