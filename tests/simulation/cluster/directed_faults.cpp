#include "tests/simulation/cluster/directed_faults.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace foretime::simulation {
namespace {

constexpr double kMinutesBetween = 8;
constexpr Time kLongestAbsence = 6 * kMinute;  // where nobody else takes the job

}  // namespace

DirectedFaults::DirectedFaults(Environment& env, Invariants& invariants,
                               std::function<void(double seconds)> crash_redis, std::function<void()> crashed)
    : env_(env),
      invariants_(invariants),
      crash_redis_(std::move(crash_redis)),
      crashed_(std::move(crashed)),
      random_(~env.options.seed) {}

void DirectedFaults::choose() {
  if (!env_.options.directed) return;
  // Only a Redis that syncs each second forgets a claim that it has answered.
  if (!env_.redis.sync_always() || random_() % 4 == 0) chosen_.push_back(Kind::forgotten_claim);
  if (random_() % 4 != 0) chosen_.push_back(Kind::late_report);
  if (random_() % 4 != 0 || chosen_.empty()) chosen_.push_back(Kind::late_result);
  env_.redis.hold_back = [this](int64_t node, const auto& calls, std::function<void()> deliver) {
    return hold_back(node, calls, std::move(deliver));
  };
  invariants_.claimed = [this](const auto& job, const auto& agent) { claimed(job, agent); };
  plan_next();
}

void DirectedFaults::plan_next() {
  const double fraction = static_cast<double>(random_() >> 11) * 0x1p-53;
  const double pause = -std::log(1 - fraction) * kMinutesBetween * kMinute;
  env_.scheduler.at(env_.scheduler.now() + static_cast<Time>(pause), [this] {
    if (stopped_) return;
    for (const auto kind : chosen_) armed_[kind] = true;
    plan_next();
  });
}

void DirectedFaults::stop() {
  stopped_ = true;
  armed_.clear();
}

bool DirectedFaults::hold_back(int64_t node, const std::vector<std::vector<std::string>>& calls,
                               std::function<void()> deliver) {
  if (node < 0 || !absent_.empty() || env_.redis.cut_off.count(node) != 0) return false;
  for (const auto& call : calls) {
    const auto script = invariants_.script_of(call);
    const bool result = script == "finish";
    if (!result && script != "report") continue;
    auto& armed = armed_[result ? Kind::late_result : Kind::late_report];
    const auto& job = call.at(5);
    if (!armed) continue;
    armed = false;
    ++env_.report.faults;
    ++env_.report.faults_by_kind[result ? "results that are late" : "reports that are late"];
    env_.trace(fmt::format("node {} is cut off, its {} of {} on the way", node, script, job));
    cut_off(job, {node, std::move(deliver)});
    return true;
  }
  return false;
}

void DirectedFaults::claimed(const std::string& job, const std::string& agent) {
  auto& scheduler = env_.scheduler;
  const auto node = std::stoll(agent.substr(std::string("node").size()));
  if (const auto found = absent_.find(job); found != absent_.end()) {
    if (found->second.node == node) return;
    // Soon, or just before the newest holder is done.
    const auto delay = scheduler.integer(0, scheduler.chance(0.8) ? 2 * kSecond : 5 * kMinute);
    scheduler.at(scheduler.now() + delay, [this, job] { come_back(job); });
    return;
  }
  auto& armed = armed_[Kind::forgotten_claim];
  if (!armed || !absent_.empty() || env_.redis.cut_off.count(node) != 0) return;
  armed = false;
  ++env_.report.faults;
  ++env_.report.faults_by_kind["claims that Redis forgets"];
  env_.trace(fmt::format("node {} is cut off, and Redis crashes after its claim of {}", node, job));
  // The answer may have arrived by then.
  scheduler.at(scheduler.now() + scheduler.integer(5, 300) * kMillisecond, [this, job, node] {
    if (stopped_ || !env_.redis.up() || !absent_.empty()) return;
    cut_off(job, {node, nullptr});
    crash_redis_(10);
    crashed_();
  });
}

void DirectedFaults::cut_off(const std::string& job, Absent absent) {
  ++env_.troubles;
  env_.disturbed(0);
  env_.redis.cut_off.insert(absent.node);
  absent_[job] = std::move(absent);
  env_.scheduler.at(env_.scheduler.now() + kLongestAbsence, [this, job] { come_back(job); });
}

void DirectedFaults::come_back(const std::string& job) {
  const auto found = absent_.find(job);
  if (found == absent_.end()) return;
  const auto absent = std::move(found->second);
  absent_.erase(found);
  --env_.troubles;
  env_.disturbed(0);
  env_.trace(fmt::format("node {} is back", absent.node));
  env_.redis.cut_off.erase(absent.node);
  if (absent.write) absent.write();
}

}  // namespace foretime::simulation
