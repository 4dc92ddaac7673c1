#include "jobs/agent/failure_classifier.h"

#include <algorithm>

#include <fmt/format.h>

namespace foretime::jobs {
namespace {

constexpr double kLostChannelGrace = 2.0;  // seconds, for the last words of ranks that have gone

std::unique_ptr<HostWatch> make_host_watch(const AgentOptions& options, Waiter& waiter, World& world,
                                           spdlog::logger& log) {
  if (options.hosts.empty()) return nullptr;
  return std::make_unique<HostWatch>(
      options.hosts, options.host_probe, [&waiter] { waiter.wake(); }, world, log);
}

}  // namespace

FailureClassifier::FailureClassifier(const AgentOptions& options, Waiter& waiter, World& world, spdlog::logger& log)
    : host_count_(options.hosts.size()),
      world_(world),
      hosts_(make_host_watch(options, waiter, world, log)),
      health_(
          "agent " + options.name, options.roots, options.most_failures, [&waiter] { waiter.wake(); }, world, log) {}

std::optional<std::set<std::string>> FailureClassifier::changed_silent_hosts() {
  auto silent = hosts_ ? hosts_->changed_silent_hosts() : std::nullopt;
  if (silent) all_silent_ = silent->size() == host_count_;
  return silent;
}

std::optional<std::string> FailureClassifier::lost_hosts(const AgentJob& job, const FailureEvidence& evidence) {
  if (!hosts_) return "";
  const auto silent = hosts_->silent_since(std::min(evidence.check_since, evidence.channel_lost_at));
  if (!silent) return std::nullopt;
  std::string lost;
  for (const auto& host : job.slots().hosts)
    if (silent->contains(host.name)) lost += (lost.empty() ? "" : ", ") + host.name;
  if (lost.empty()) return "";
  return fmt::format("lost {}, which does not answer", lost);
}

NodeHealth::Answer FailureClassifier::check_machine(FailureEvidence& evidence, double now) {
  const auto seen = health_.checked_since(evidence.check_since, now);
  evidence.awaits_check = seen == NodeHealth::Answer::wait;
  return seen;
}

bool FailureClassifier::classify(AgentJob& job, FailureEvidence& evidence) {
  if (evidence.classified) return true;
  const auto outcome = job.result().outcome;
  const double now = world_.steady_seconds();
  bool its_own = true;
  if (outcome == Outcome::failed || outcome == Outcome::error || ended_by_storage(job.result())) {
    const auto seen = check_machine(evidence, now);
    if (seen == NodeHealth::Answer::wait) return false;
    const auto lost = lost_hosts(job, evidence);
    evidence.awaits_check = !lost;
    if (!lost) return false;
    if (!lost->empty()) job.give_back(*lost, job.result().error);
    if (seen == NodeHealth::Answer::trouble) job.give_back(health_.trouble());
    its_own = lost->empty() && seen != NodeHealth::Answer::trouble;
  }
  evidence.classified = true;
  if (its_own && !job.could_not_start()) health_.ended(job.lease(), job.result(), now);
  return true;
}

void FailureClassifier::end_if_abandoned(AgentJob& job, FailureEvidence& evidence, double now) {
  if (!hosts_ || !job.has_lost_channel()) {
    if (job.connected()) evidence.channel_lost_at = kNever;
    return;
  }
  evidence.channel_lost_at = std::min(evidence.channel_lost_at, now);
  if (now - evidence.channel_lost_at < kLostChannelGrace) return;
  if (const auto lost = lost_hosts(job, evidence); lost && !lost->empty())
    job.fail("the ranks have ended, but the launcher waits for a host that does not answer: killed");
}

double FailureClassifier::next_turn(const AgentJob& job, const FailureEvidence& evidence, double now) const {
  if (!hosts_ || !job.has_lost_channel() || now - evidence.channel_lost_at >= kLostChannelGrace) return kNever;
  return evidence.channel_lost_at + kLostChannelGrace;
}

}  // namespace foretime::jobs
