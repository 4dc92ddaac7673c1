#include "jobs/agent/store_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "jobs/error.h"

namespace foretime::jobs {

StoreWatch::StoreWatch(std::string agent, std::string identity, QueueLink& link, World& world, spdlog::logger& log)
    : agent_(std::move(agent)), identity_(std::move(identity)), link_(link), world_(world), log_(log) {}

void StoreWatch::check(double now) {
  next_ = now + world_.spread(trouble_.empty() ? kCheckInterval : kTroubleInterval);
  std::optional<StoreState> state;
  try {
    link_.reach([&] { state = link_.queue().store_state(); });
    may_ask_ = true;
  } catch (const JobsError& error) {
    if (std::exchange(may_ask_, false))
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
