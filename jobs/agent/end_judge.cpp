#include "jobs/agent/end_judge.h"

#include <algorithm>

#include <fmt/format.h>

namespace foretime::jobs {
namespace {

constexpr double kDesertedGrace = 2.0;  // seconds, for the last words of ranks that have gone

std::unique_ptr<HostWatch> make_host_watch(const AgentOptions& options, Waiter& waiter, World& world,
                                           spdlog::logger& log) {
  if (options.hosts.empty()) return nullptr;
  return std::make_unique<HostWatch>(
      options.hosts, options.host_probe, [&waiter] { waiter.wake(); }, world, log);
}

}  // namespace

EndJudge::EndJudge(const AgentOptions& options, Waiter& waiter, World& world, spdlog::logger& log)
    : host_count_(options.hosts.size()),
      world_(world),
      hosts_(make_host_watch(options, waiter, world, log)),
      health_(
          "agent " + options.name, options.roots, options.most_failures, [&waiter] { waiter.wake(); }, world, log) {}

std::optional<std::set<std::string>> EndJudge::news_of_hosts() {
  auto silent = hosts_ ? hosts_->news() : std::nullopt;
  if (silent) all_silent_ = silent->size() == host_count_;
  return silent;
}

std::optional<std::string> EndJudge::lost_hosts(const AgentJob& job, const Evidence& evidence) {
  if (!hosts_) return "";
  const auto silent = hosts_->silent_since(std::min(evidence.look_since, evidence.deserted_at));
  if (!silent) return std::nullopt;
  std::string lost;
  for (const auto& host : job.slots().hosts)
    if (silent->contains(host.name)) lost += (lost.empty() ? "" : ", ") + host.name;
  if (lost.empty()) return "";
  return fmt::format("lost {}, which does not answer", lost);
}

NodeHealth::Answer EndJudge::look(Evidence& evidence, double now) {
  const auto seen = health_.seen_since(evidence.look_since, now);
  evidence.looking = seen == NodeHealth::Answer::wait;
  return seen;
}

bool EndJudge::judge(AgentJob& job, Evidence& evidence) {
  if (evidence.judged) return true;
  const auto outcome = job.result().outcome;
  const double now = world_.steady_seconds();
  bool its_own = true;
  if (outcome == Outcome::failed || outcome == Outcome::error || ended_by_storage(job.result())) {
    const auto seen = look(evidence, now);
    if (seen == NodeHealth::Answer::wait) return false;
    const auto lost = lost_hosts(job, evidence);
    evidence.looking = !lost;
    if (!lost) return false;
    if (!lost->empty()) job.give_back(*lost, job.result().error);
    if (seen == NodeHealth::Answer::trouble) job.give_back(health_.trouble());
    its_own = lost->empty() && seen != NodeHealth::Answer::trouble;
  }
  evidence.judged = true;
  if (its_own && !job.could_not_start()) health_.ended(job.lease(), job.result(), now);
  return true;
}

void EndJudge::look_after_deserted(AgentJob& job, Evidence& evidence, double now) {
  if (!hosts_ || !job.deserted()) {
    if (job.connected()) evidence.deserted_at = kNever;
    return;
  }
  evidence.deserted_at = std::min(evidence.deserted_at, now);
  if (now - evidence.deserted_at < kDesertedGrace) return;
  if (const auto lost = lost_hosts(job, evidence); lost && !lost->empty())
    job.fail("its ranks are gone, and its launcher waits for a host that does not answer: killed");
}

double EndJudge::next_turn(const AgentJob& job, const Evidence& evidence, double now) const {
  if (!hosts_ || !job.deserted() || now - evidence.deserted_at >= kDesertedGrace) return kNever;
  return evidence.deserted_at + kDesertedGrace;
}

}  // namespace foretime::jobs
