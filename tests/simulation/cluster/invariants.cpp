#include "tests/simulation/cluster/invariants.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>
#include <variant>

#include <fmt/format.h>

#include "coordinator/checkpoint_store.h"
#include "jobs/queue/packed_record.h"
#include "jobs/queue/redis_queue.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/simulation/cluster/simulated_client.h"
#include "tests/simulation/redis/model_connection.h"

namespace foretime::simulation {
namespace {

using jobs::JobState;

std::string job_key(const std::string& id) { return "{foretime}:job:" + id; }

}  // namespace

Invariants::Invariants(Environment& env, JobLedger& ledger, const Agents& agents)
    : env_(env),
      ledger_(ledger),
      agents_(agents),
      facts_(env.redis.model(), [&env](const std::string& what) { env.fail(what); }) {
  for (const auto& [name, script] : jobs::queue_scripts()) scripts_[script.sha1] = name;
}

void Invariants::after_command(const std::vector<std::string>& call, const Answer& answer) {
  read_transitions();
  check_writer(call, answer);
  facts_.after_command(told_, env_.scheduler.now());
  told_.clear();
  for (auto& [job, lease] : fresh_leases_) last_leases_[job] = std::move(lease);
  fresh_leases_.clear();
  left_.clear();
}

void Invariants::read_transitions() {
  const auto& keys = env_.redis.model().keys();
  const auto found = keys.find("{foretime}:events");
  if (found == keys.end()) return;
  const auto& stream = std::get<Stream>(found->second);
  const auto place = std::pair(stream.last_milliseconds, stream.last_sequence);
  if (place == seen_) return;
  auto entry = stream.entries.end();
  while (entry != stream.entries.begin() && std::pair((entry - 1)->milliseconds, (entry - 1)->sequence) > seen_)
    --entry;
  if (place < seen_) entry = stream.entries.end();  // a crash took some back
  seen_ = place;
  for (; entry != stream.entries.end(); ++entry) {
    std::map<std::string, std::string> fields;
    for (size_t i = 0; i + 1 < entry->fields.size(); i += 2) fields[entry->fields[i]] = entry->fields[i + 1];
    for (const auto& transition : jobs::transitions_of(fields)) check_transition(transition);
  }
}

void Invariants::check_transition(const std::map<std::string, std::string>& event) {
  const auto& job = event.at("job");
  told_.insert(job);
  for (const auto& [name, value] : event) {
    for (const char c : name + value + "\n")
      env_.report.digest = (env_.report.digest ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  if (env_.options.trace)
    env_.trace(fmt::format("{}: {} {} -> {} (fence {}, {})", job, event.at("event"), event.at("from"), event.at("to"),
                           event.at("fence"), event.at("agent")));
  const auto fence = std::stoll(event.at("fence"));
  if (event.at("from") == "active" && event.at("to") != "active") left_.insert(job);
  if (event.at("event") == "claim") {
    check_claim(job, fence);
    if (claimed) claimed(job, event.at("agent"));
  }
  if (event.at("event") == "forget" && ledger_.submitted.count(job) == 0) return;  // for the second time, after a crash
  auto& known = ledger_.submitted[job];
  if (event.at("event") == "forget") {
    if (!is_final(known.state)) env_.fail(job + " was forgotten before it had ended");
    // A clock that is ahead passes the six hours 24 times as fast (jobs/queue/scripts/modules/retention.lua), and no
    // faster.
    const auto kept = env_.scheduler.now() - known.ended;
    if (kept < 10 * kMinute) env_.fail(fmt::format("{} was forgotten {} s after its end", job, kept / kSecond));
    known.forgotten = true;
    return;
  }
  if (event.at("event") == "refuse") return;
  if (event.at("event") == "submit") {
    if (std::exchange(known.forgotten, false)) {  // anew
      last_fences_.erase(job);
      known.state = JobState::waiting;
    }
    if (ledger_.plans.count(job) == 0)
      ledger_.plans[job] =
          draw_plan(env_.scheduler, field(job, "kind") == "train" ? jobs::JobKind::train : jobs::JobKind::export_,
                    env_.options.minutes_a_job);
  }
  if (event.at("event") == "retry") ledger_.own_failures[job] = 0;
  const auto to = jobs::parse_job_state(event.at("to"));
  if (known.state == JobState::succeeded && to != JobState::succeeded && !lost_second_)
    env_.fail(fmt::format("{}: {} after it had succeeded", job, event.at("to")));
  if (is_final(to) && !is_final(known.state)) known.ended = env_.scheduler.now();
  known.state = to;
  if (to == JobState::succeeded && event.at("from") == "active") {
    ++env_.report.succeeded;
    check_result(job);
  }
  if ((to == JobState::dead || to == JobState::failed) && event.at("from") != to_string(to)) check_bad_end(job, to);
}

void Invariants::check_claim(const std::string& job, int64_t fence) {
  fresh_leases_[job] = std::to_string(fence) + ":" + field(job, "token");
  auto& last = last_fences_[job];
  if (fence <= last) env_.fail(fmt::format("{}: fence {} after {}", job, fence, last));
  last = fence;
  if (const auto most = field(job, "most_ranks"), took = field(job, "attempt_ranks");
      !most.empty() && (took.empty() || std::stoll(took) < 1 || std::stoll(took) > std::stoll(most)))
    env_.fail(fmt::format("{} took '{}' of at most {} ranks", job, took, most));
  if (ledger_.paused.count("") != 0) env_.fail(job + " was claimed while the queue was paused");
  const auto sweep = field(job, "sweep");
  if (!sweep.empty() && ledger_.paused.count(sweep) != 0) env_.fail(job + " was claimed while its sweep was paused");
}

std::string Invariants::script_of(const std::vector<std::string>& call) const {
  const auto found = call.front() == "EVALSHA" ? scripts_.find(call.at(1)) : scripts_.end();
  return found == scripts_.end() ? "" : found->second;
}

void Invariants::check_writer(const std::vector<std::string>& call, const Answer& answer) {
  const auto name = script_of(call);
  if (name.empty() || answer.kind != Answer::Kind::array || answer.elements.empty()) return;
  const bool ends = name == "finish";
  if (!ends && name != "renew" && name != "report") return;
  const auto& word = answer.elements.front().text;
  if (word == "lost" || word == "no" || word == "refused") return;
  constexpr size_t at = 5;
  if (call.size() <= at + 2) return;
  const auto last = last_leases_.find(call[at]);
  const auto lease = call[at + 1] + ":" + call[at + 2];
  if (last != last_leases_.end() && last->second != lease && (!ends || left_.count(call[at]) != 0))
    env_.fail(fmt::format("{} of {} by lease {}, but the newest is {}", name, call[at], lease, last->second));
  const bool succeeded = ends && call.size() > at + 4 && (call[at + 4] == "succeeded" || call[at + 4] == "stopped");
  if (word == "ok" && succeeded && field(call[at], "state") != "succeeded")
    env_.fail(fmt::format("{}: its result was taken, and it is {}", call[at], field(call[at], "state")));
}

void Invariants::check_result(const std::string& job) {
  const auto& plan = ledger_.plans.at(job);
  const auto checkpoint = field(job, "checkpoint"), objective = field(job, "objective");
  const bool stopped = field(job, "stopped") == "1", trains = plan.kind == jobs::JobKind::train;
  if (field(job, "results") != "1") env_.fail(fmt::format("{} succeeded with {} results", job, field(job, "results")));
  if (stopped && checkpoint.empty()) return;
  if (checkpoint.empty() || (trains && objective.empty()))
    env_.fail(fmt::format("{} succeeded with checkpoint '{}' and objective '{}'", job, checkpoint, objective));
  const auto folder = std::filesystem::path(kRunRoot) / checkpoint;
  if (!trains) {
    if (!env_.files.exists(folder / "model"))
      env_.fail(fmt::format("the result of {}, {}, is not there", job, checkpoint));
    return;
  }
  coordinator::StoredCheckpoint found;
  try {
    found = coordinator::read_checkpoint(folder);
  } catch (const std::exception& error) {
    env_.fail(fmt::format("the result of {} cannot be read: {}", job, error.what()));
  }
  if (found.files.at("job") != job) env_.fail(fmt::format("the result of {} is {}, of another job", job, checkpoint));
  if (stopped) return;
  if (found.files.at("step") != std::to_string(plan.steps))
    env_.fail(fmt::format("the result of {} is {}, not of its last step {}", job, checkpoint, plan.steps));
  if (std::abs(std::stod(objective) - objective_at(job, plan.steps)) > 1e-9)
    env_.fail(fmt::format("the objective of {} is {}", job, objective));
}

void Invariants::check_bad_end(const std::string& job, JobState state) {
  const auto& plan = ledger_.plans.at(job);
  if (state == JobState::failed && !plan.bad)
    env_.fail(fmt::format("{} failed, but there is nothing wrong with it: {}", job, field(job, "error")));
  if (state == JobState::dead && ledger_.own_failures[job] + (plan.deaf ? 3 : 0) < 3)
    env_.fail(fmt::format("{} is dead after {} failures of its own: {}", job, ledger_.own_failures[job],
                          field(job, "error")));
}

void Invariants::check_results() {
  if (!env_.redis.up()) return;
  for (const auto& [job, known] : ledger_.submitted) {
    if (known.state == JobState::succeeded && !known.forgotten && field(job, "state") == "succeeded") check_result(job);
  }
}

void Invariants::check() {
  auto& model = env_.redis.model();
  if (!env_.redis.up()) return;
  const auto trouble = std::exchange(model.trouble, {});
  jobs::RedisClient client(SimulatedClient::url());
  const std::shared_ptr<RedisModel> not_owned(std::shared_ptr<void>(), &model);
  client.connect_by([&](const jobs::RedisUrl&) { return std::make_unique<ModelConnection>(not_owned); });
  const auto broken = jobs::broken_invariants(jobs::dump_keys(client, queue_settings().prefix), {});
  model.trouble = trouble;
  if (!broken.empty()) env_.fail(broken.front());
  for (const auto& [job, known] : ledger_.submitted) {
    if (known.forgotten || known.at == 0) continue;
    if (model.keys().count(job_key(job)) == 0) env_.fail(job + " is lost");
  }
}

void Invariants::check_calm() {
  if (env_.in_trouble() || !env_.redis.up() || env_.scheduler.now() - env_.calm_since < 15 * kMinute) return;
  const auto names = agents_.names();
  const auto& keys = env_.redis.model().keys();
  const auto found = keys.find("{foretime}:leases");
  if (found == keys.end()) return;
  for (const auto& [deadline, job] : std::get<SortedSet>(found->second).order()) {
    const auto left = deadline / 1000 - static_cast<double>(env_.redis.now_ms()) / 1000;
    if (left > kLeaseTerm + 1 || left < -kLeaseTerm)
      env_.fail(fmt::format("the lease of {} ends in {:.1f} s", job, left));
    if (names.count(field(job, "agent")) == 0)
      env_.fail(fmt::format("{} is leased to {}, which does not live", job, field(job, "agent")));
  }
}

bool Invariants::all_ended() const {
  return std::all_of(ledger_.submitted.begin(), ledger_.submitted.end(), [](const auto& entry) {
    return entry.second.forgotten || entry.second.at == 0 || is_final(entry.second.state);
  });
}

void Invariants::check_all_ended() {
  for (const auto& [job, known] : ledger_.submitted) {
    if (!known.forgotten && known.at != 0 && !is_final(known.state))
      env_.fail(fmt::format("{} is {} two days after the faults stopped: {}", job, to_string(known.state),
                            field(job, "reason")));
  }
}

void Invariants::forget_what_redis_lost() {
  const auto now = env_.scheduler.now();
  std::erase_if(ledger_.submitted, [&](const auto& entry) {
    return now - entry.second.at < 2 * kSecond && env_.redis.model().keys().count(job_key(entry.first)) == 0;
  });
  for (auto& [job, known] : ledger_.submitted) {
    const auto text = field(job, "state");
    if (text.empty()) continue;
    // A retry that Redis forgot: the job has ended as before. Or it is there again, and will be forgotten again.
    const auto state = jobs::parse_job_state(text);
    if (known.forgotten || (!is_final(known.state) && is_final(state))) known.state = state;
    known.forgotten = false;
  }
  std::erase_if(ledger_.paused, [&](const auto& entry) { return now - entry.second < 2 * kSecond; });
  last_fences_.clear();
  last_leases_.clear();
  lost_second_ = true;
  facts_.after_crash(env_.redis.sync_always(), now);
}

void Invariants::forget(const std::string& job) {
  last_fences_.erase(job);
  last_leases_.erase(job);
}

std::string Invariants::field(const std::string& job, const std::string& name) {
  const auto& keys = env_.redis.model().keys();
  const auto found = keys.find(job_key(job));
  if (found == keys.end()) return "";
  const auto& hash = std::get<Hash>(found->second);
  const auto fields = jobs::unpacked({hash.begin(), hash.end()}, job);
  const auto at = fields.find(name);
  return at == fields.end() ? "" : at->second;
}

}  // namespace foretime::simulation
