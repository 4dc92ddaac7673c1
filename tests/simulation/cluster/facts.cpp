#include "tests/simulation/cluster/facts.h"

#include <array>
#include <string_view>
#include <variant>

#include <fmt/format.h>

namespace foretime::simulation {
namespace {

constexpr std::string_view kPrefix = "{foretime}:";
constexpr std::string_view kJobPrefix = "{foretime}:job:";
constexpr std::array kStates = {"blocked",   "waiting", "held",      "delayed", "active",
                                "succeeded", "failed",  "cancelled", "dead"};

std::string field_or_nothing(const Hash& record, const std::string& name) {
  const auto at = record.find(name);
  return at == record.end() ? "" : at->second;
}

/// The job whose record a key is; empty: it is another key.
std::string job_of_key(const std::string& key) {
  if (!key.starts_with(kJobPrefix) || key.find(':', kJobPrefix.size()) != std::string::npos) return "";
  return key.substr(kJobPrefix.size());
}

bool is_index_of_jobs(std::string_view key) {
  if (!key.starts_with(kPrefix)) return false;
  key.remove_prefix(kPrefix.size());
  return key == "leases" || key == "delayed" || key == "ids" || key.starts_with("state:") ||
         key.starts_with("waiting:") || key.starts_with("held:");
}

}  // namespace

/// Reads fence and token as `unpacked` does (jobs/queue/scripts/modules/records.lua).
Facts::Fact Facts::fact_of(const Hash& record) {
  Fact fact;
  fact.state = field_or_nothing(record, "state");
  const auto lease = field_or_nothing(record, "lease");
  const auto first = lease.find(' '), second = lease.find(' ', first + 1);
  if (first != std::string::npos && second != std::string::npos) {
    fact.fence = lease.substr(0, first);
    fact.token = lease.substr(first + 1, second - first - 1);
  }
  if (fact.state == "succeeded")
    fact.result = fmt::format("{} {} {}", field_or_nothing(record, "results"), field_or_nothing(record, "objective"),
                              field_or_nothing(record, "checkpoint"));
  return fact;
}

const Hash* Facts::record_of(const std::string& job) const {
  const auto found = model_.keys().find(std::string(kJobPrefix) + job);
  return found == model_.keys().end() ? nullptr : std::get_if<Hash>(&found->second);
}

const SortedSet* Facts::index(const std::string& name) const {
  const auto found = model_.keys().find(std::string(kPrefix) + name);
  return found == model_.keys().end() ? nullptr : std::get_if<SortedSet>(&found->second);
}

void Facts::after_command(const std::set<std::string>& told, Time now) {
  std::set<std::string> touched;
  for (const auto& command : model_.last_writes()) {
    const auto& name = command.front();
    for (size_t i = 1; i < (name == "DEL" ? command.size() : 2); ++i) {
      if (const auto job = job_of_key(command[i]); !job.empty()) touched.insert(job);
      // What stood in it is not known any more.
      if (name == "DEL" && is_index_of_jobs(command[i]))
        for (const auto& [job, fact] : facts_) touched.insert(job);
    }
    if ((name != "ZADD" && name != "ZREM") || !is_index_of_jobs(command[1])) continue;
    const bool adds = name == "ZADD";
    for (size_t i = adds ? 3 : 2; i < command.size(); i += adds ? 2 : 1) touched.insert(command[i]);
  }
  for (const auto& job : touched) look_at(job, told.count(job) != 0, now);
}

void Facts::look_at(const std::string& job, bool told, Time now) {
  ++looks_;
  const auto* record = record_of(job);
  const auto known = facts_.find(job);
  if (record == nullptr) {
    check_indexes(job, "");
    if (known == facts_.end()) return;
    if (!told) fail_(fmt::format("{} is lost: it was {}", job, known->second.state));
    facts_.erase(known);
    return;
  }
  auto fact = fact_of(*record);
  fact.changed = now;
  check_indexes(job, fact.state);
  if (known == facts_.end()) {
    if (!told) fail_(job + " came without a word in the events");
    facts_.emplace(job, std::move(fact));
    return;
  }
  auto& before = known->second;
  if (fact.same_as(before)) return;
  const bool moved = fact.state != before.state || fact.fence != before.fence ||
                     (fact.token != before.token && fact.state == "active");
  if (moved && !told)
    fail_(fmt::format("{} went from {} (fence {}) to {} (fence {}) without a word in the events", job, before.state,
                      before.fence, fact.state, fact.fence));
  if (before.state == "succeeded" && fact.state == "succeeded" && fact.result != before.result)
    fail_(fmt::format("{} had the result {}, and has {}", job, before.result, fact.result));
  before = std::move(fact);
}

void Facts::check_indexes(const std::string& job, const std::string& state) {
  const auto expect = [&](const std::string& name, bool expected) {
    const auto* members = index(name);
    const bool there = members != nullptr && members->score(job).has_value();
    if (there != expected)
      fail_(fmt::format("{} is '{}', and {} in {}", job, state, there ? "stands" : "is not", name));
  };
  expect("ids", !state.empty());
  for (const auto* other : kStates) expect(std::string("state:") + other, state == other);
  expect("leases", state == "active");
  expect("delayed", state == "delayed");
  // One of a family: a sorted set for each demand, or for each sweep that is paused.
  const auto count_in = [&](const std::string& names, const std::string& family) {
    const auto found = model_.keys().find(std::string(kPrefix) + names);
    const auto* all = found == model_.keys().end() ? nullptr : std::get_if<Set>(&found->second);
    int64_t count = 0;
    for (const auto& name : all == nullptr ? Set() : *all) {
      const auto* members = index(family + name);
      count += members != nullptr && members->score(job) ? 1 : 0;
    }
    if (count != (state == family.substr(0, family.size() - 1) ? 1 : 0))
      fail_(fmt::format("{} is '{}', and stands in {} of the sets {}*", job, state, count, family));
  };
  count_in("shapes", "waiting:");
  count_in("held", "held:");
}

void Facts::after_crash(bool lossless, Time now) {
  const Time loss = lossless ? 0 : 2 * kSecond;
  std::map<std::string, Fact> found;
  for (const auto& [key, value] : model_.keys()) {
    const auto job = job_of_key(key);
    if (job.empty()) continue;
    found[job] = fact_of(std::get<Hash>(value));
    check_indexes(job, found[job].state);
  }
  for (const auto& [job, before] : facts_) {
    const auto after = found.find(job);
    const bool same = after != found.end() && after->second.same_as(before);
    if (!same && before.changed <= now - loss)
      fail_(fmt::format("{} was {} (fence {}) for {:.1f} s, and Redis came back without that", job, before.state,
                        before.fence, static_cast<double>(now - before.changed) / kSecond));
    if (same) after->second.changed = before.changed;
  }
  for (auto& [job, fact] : found) {
    if (facts_.count(job) == 0 && lossless) fail_(job + " came back with Redis after it was forgotten");
    if (fact.changed == 0) fact.changed = now;
  }
  facts_ = std::move(found);
}

}  // namespace foretime::simulation
