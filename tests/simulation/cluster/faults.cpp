#include "tests/simulation/cluster/faults.h"

#include <cerrno>
#include <cmath>
#include <iterator>
#include <memory>
#include <string_view>

#include <fmt/format.h>

namespace foretime::simulation {
namespace {

constexpr double kLongestCrash = 1800;  // seconds

}  // namespace

void Faults::choose() {
  for (const auto& faults : {of_agents_and_jobs(), of_redis(), of_disks_clock_and_power()}) {
    for (const auto& fault : faults) {
      if (env_.scheduler.chance(0.5)) chosen_.push_back(fault);
    }
  }
  minutes_between_ = 5 * std::exp(env_.scheduler.fraction() * 4);  // 5 minutes to 4.5 hours
}

void Faults::plan_next() {
  if (chosen_.empty()) return;
  auto& scheduler = env_.scheduler;
  const double pause = -std::log(1 - scheduler.fraction()) * minutes_between_ * 60;
  scheduler.at(scheduler.now() + static_cast<Time>(pause * kSecond), [this] {
    if (stopped_) return;
    ++env_.report.faults;
    const auto& fault =
        chosen_[static_cast<size_t>(env_.scheduler.integer(0, static_cast<int64_t>(chosen_.size()) - 1))];
    ++env_.report.faults_by_kind[fault.kind];
    env_.disturbed(0);
    fault.begin();
    plan_next();
  });
}

void Faults::trouble_for(double seconds, const std::string& what, const std::function<void(bool)>& set) {
  env_.trace(what);
  ++env_.troubles;
  set(true);
  env_.disturbed(seconds);
  env_.scheduler.at(env_.scheduler.now() + static_cast<Time>(seconds * kSecond), [this, what, set] {
    --env_.troubles;
    set(false);
    env_.trace("over: " + what);
  });
}

/// Mostly short, now and then long: uniform in the logarithm.
double Faults::some_seconds(double longest) {
  return std::exp(std::log(0.2) + env_.scheduler.fraction() * (std::log(longest) - std::log(0.2)));
}

std::vector<Faults::Fault> Faults::of_agents_and_jobs() {
  return {
      {"agents killed", [this] { agents_.kill(some_node(), false); }},
      {"agents killed with their jobs", [this] { agents_.kill(some_node(), true); }},
      {"agents drained", [this] { agents_.drain(some_node()); }},
      {"jobs killed", [this] { kill_a_job(); }},
      {"nodes that stand still", [this] { freeze_a_node(); }},
  };
}

void Faults::kill_a_job() {
  const auto& running = trainings_.running();
  if (running.empty()) return;
  const auto at = std::next(running.begin(), env_.scheduler.integer(0, static_cast<int64_t>(running.size()) - 1));
  const auto trial = at->second;
  env_.trace("kill -9 " + trial->folder.string());
  ++ledger_.own_failures[trial->job];  // nobody can tell it from a crash
  trainings_.kill(trial);
}

void Faults::freeze_a_node() {
  const auto node = some_node();
  auto& until = env_.frozen_until[node];
  until = env_.scheduler.now() + static_cast<Time>(some_seconds(900) * kSecond);
  const double seconds = static_cast<double>(until - env_.scheduler.now()) / kSecond;
  env_.disturbed(seconds);
  env_.trace(fmt::format("node {} stands still for {:.1f} s", node, seconds));
}

std::vector<Faults::Fault> Faults::of_redis() {
  auto& redis = env_.redis;
  auto& model = redis.model();
  return {
      {"crashes of Redis", [this] { crash_redis(kLongestCrash); }},
      {"nodes cut off", [this] { cut_off_a_node(); }},
      {"losses of messages",
       [this, &redis] {
         trouble_for(some_seconds(1800), "messages get lost", [&redis](bool on) { redis.loss = on ? 0.2 : 0; });
       }},
      {"delays of messages",
       [this, &redis] {
         trouble_for(some_seconds(1800), "messages are late", [&redis](bool on) { redis.delay = on ? 0.2 : 0; });
       }},
      {"Redis a replica",
       [this, &model] {
         trouble_for(some_seconds(900), "Redis is a replica", [&model](bool on) { model.trouble.replica = on; });
       }},
      {"Redis full",
       [this, &model] {
         trouble_for(some_seconds(900), "Redis is full", [&model](bool on) { model.trouble.full = on; });
       }},
      {"disks of Redis that fail",
       [this, &model] {
         trouble_for(some_seconds(900), "the disk of Redis fails",
                     [&model](bool on) { model.trouble.disk_error = on; });
       }},
      {"Redis loading",
       [this, &model] {
         trouble_for(some_seconds(900), "Redis loads", [&model](bool on) { model.trouble.loading = on; });
       }},
      {"passwords refused",
       [this, &model] {
         trouble_for(some_seconds(900), "Redis asks for a password",
                     [&model](bool on) { model.trouble.authentication = on ? "NOAUTH Authentication required." : ""; });
       }},
  };
}

void Faults::crash_redis(double longest) {
  ++env_.report.redis_crashes;
  trouble_for(some_seconds(longest), "Redis crashes",
              [this](bool on) { on ? env_.redis.crash() : env_.redis.restart(); });
  invariants_.forget_what_redis_lost();
}

void Faults::cut_off_a_node() {
  const auto node = env_.scheduler.integer(-1, kNodes - 1);
  trouble_for(some_seconds(1800), fmt::format("node {} is cut off", node), [this, node](bool on) {
    on ? static_cast<void>(env_.redis.cut_off.insert(node)) : static_cast<void>(env_.redis.cut_off.erase(node));
  });
}

void Faults::move_clock_of_redis() {
  auto& scheduler = env_.scheduler;
  const auto seconds = scheduler.chance(0.5) ? scheduler.integer(-300, 300) : scheduler.integer(-40, 40) * 86400;
  env_.trace(fmt::format("the clock of Redis jumps by {} s", seconds));
  env_.redis.move_clock(seconds);
  if (!scheduler.chance(0.7)) return;
  scheduler.at(scheduler.now() + static_cast<Time>(some_seconds(3600) * kSecond), [this, seconds] {
    env_.disturbed(0);
    env_.trace("the clock of Redis jumps back");
    env_.redis.move_clock(-seconds);
  });
}

std::vector<Faults::Fault> Faults::of_disks_clock_and_power() {
  return {
      {"full disks",
       [this] { trouble_for(some_seconds(1800), "the disk is full", [this](bool on) { disk_full_ = on; }); }},
      {"broken disks", [this] { break_a_disk(); }},
      {"jumps of the clock", [this] { move_clock_of_redis(); }},
      {"losses of power", [this] { lose_power(); }},
  };
}

void Faults::break_a_disk() {
  const auto node = some_node();
  const int error = env_.scheduler.chance(0.5) ? EROFS : EIO;
  trouble_for(some_seconds(3600), fmt::format("node {} has a broken disk ({})", node, error),
              [this, node, error](bool on) {
                if (on) broken_disks_[node] = error;
                else broken_disks_.erase(node);
              });
}

void Faults::lose_power() {
  env_.trace("power fails, for all but Redis at times");
  env_.disturbed(0);
  for (int64_t node = 0; node < kNodes; ++node) {
    env_.frozen_until[node] = 0;
    agents_.kill(node, true);
  }
  env_.files.lose_power([this] { return static_cast<SimulatedFiles::Fate>(env_.scheduler.integer(0, 2)); });
  invariants_.check_results();
  if (env_.scheduler.chance(0.5) && env_.redis.up()) crash_redis(kLongestCrash);
}

int Faults::file_fault(const char* operation) {
  if (env_.scheduler.dying()) return SimulatedFiles::kDead;
  const auto process = env_.scheduler.process();
  if (process == 0) return 0;
  const std::string_view name(operation);
  const bool writes = name != "read" && name != "list";
  // A moment, in which somebody may die. Closing a file takes none: seeds that found something go on finding it.
  try {
    if (writes && name != "close")
      env_.scheduler.sleep_until(env_.scheduler.now() + env_.scheduler.integer(100, 20 * kMillisecond));
    env_.thaw(env_.node_of[process]);
  } catch (const Killed&) {
  }
  if (env_.scheduler.dying()) return SimulatedFiles::kDead;
  const auto broken = broken_disks_.find(env_.node_of[process]);
  if (broken != broken_disks_.end() && (writes || broken->second == EIO)) return broken->second;
  if (disk_full_ && name == "write") return ENOSPC;
  return 0;
}

}  // namespace foretime::simulation
