#include "jobs/agent/claim_schedule.h"

#include <algorithm>
#include <utility>

#include "jobs/agent/queue_link.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

constexpr double kClaimInterval = 1.0, kClaimSoon = 0.2;  // seconds
constexpr double kClaimIntervalTold = 15.0;               // seconds, where the queue tells when jobs come to wait
constexpr double kClaimSpread = 0.05;    // seconds over which agents spread that were told at the same time
constexpr double kListenInterval = 5.0;  // seconds between two attempts to be told

}  // namespace

ClaimSchedule::ClaimSchedule(const AgentOptions& options, std::shared_ptr<JobQueue> listener, World& world,
                             spdlog::logger& log)
    : options_(options), listener_(std::move(listener)), world_(world), log_(log) {}

void ClaimSchedule::slot_freed(bool came_back) {
  // At once, but for a job that came back by itself: claimed again and again it would keep the agent busy.
  next_ = world_.steady_seconds() + (came_back ? kClaimInterval : 0);
  pause_ = kClaimSoon;  // a retry of the job may be due soon
}

void ClaimSchedule::wait_after_claim(bool may_claim) {
  const bool told = may_claim && wake_ups_ && !options_.until_empty;
  const double pause = std::exchange(pause_, told ? kClaimIntervalTold : kClaimInterval);
  next_ = world_.steady_seconds() + world_.spread(pause);
}

void ClaimSchedule::separate_claims(double now) { next_with_result_ = now + world_.spread(kRefusedInterval); }

void ClaimSchedule::listen(double now, bool open) {
  try {
    if (wake_ups_ && wake_ups_->take()) next_ = std::min(next_, now + kClaimSpread * world_.random_fraction());
    if (wake_ups_ || now < next_listen_ || !open) return;
    next_listen_ = now + world_.spread(kListenInterval);
    wake_ups_ = listener_->wake_ups();
    if (!wake_ups_) next_listen_ = kNever;
    may_listen_ = true;
  } catch (const RedisUnavailable&) {
    wake_ups_.reset();  // claiming says what there is to say
  } catch (const RedisRefused& error) {
    if (std::exchange(may_listen_, false))
      log_.info("agent {}: polls for jobs every {:g} s, because it may not subscribe to announcements: {}",
                options_.name, kClaimInterval, error.what());
    next_listen_ = now + world_.spread(kRefusedInterval);
    return;
  }
  next_ = now;  // jobs may have come while the queue was not listening
}

void ClaimSchedule::add_descriptors(std::vector<pollfd>& descriptors) const {
  if (wake_ups_ && wake_ups_->descriptor() >= 0) descriptors.push_back({wake_ups_->descriptor(), POLLIN, 0});
}

}  // namespace foretime::jobs
