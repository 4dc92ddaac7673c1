#include "jobs/queue/redis_queue.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/hex_digest.h"
#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/packed_record.h"

namespace foretime::jobs {
namespace {

// Calls of one claim that pass over paused sweeps and damaged records. After them, the scripts wake all listeners.
constexpr int kClaimRounds = 16;

// Bounds of a bulk submission: a script of so many jobs takes Redis about two milliseconds.
constexpr size_t kJobsInScript = 64, kBytesInScript = 512 << 10, kScriptsInPipeline = 8;

std::string json_text(const std::map<std::string, double>& metrics) {
  return metrics.empty() ? "" : nlohmann::json(metrics).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

using Texts = std::vector<std::string>;

// Arguments of a script are texts, whole numbers, lists of them, and values that may be missing, which become "".
void append(Texts& arguments, std::string_view text) { arguments.emplace_back(text); }
void append(Texts& arguments, std::integral auto number) { arguments.push_back(std::to_string(number)); }
void append(Texts& arguments, double number) { arguments.push_back(number_text(number)); }
void append(Texts& arguments, Milliseconds time) { append(arguments, time.count()); }
void append(Texts& arguments, const Texts& more) { arguments.insert(arguments.end(), more.begin(), more.end()); }
template <class T>
void append(Texts& arguments, const std::optional<T>& value) {
  if (value) append(arguments, *value);
  else arguments.emplace_back();
}

template <class... Parts>
Texts script_arguments(const Parts&... parts) {
  Texts arguments;
  (append(arguments, parts), ...);
  return arguments;
}

const redisReply& element(const redisReply& reply, size_t index, const std::string& script) {
  if (index >= reply.elements)
    throw RedisRefused(
        "script {}: {} answers, expected more than {}; do programs of different versions share this Redis?", script,
        reply.elements, index);
  return *reply.element[index];
}

/// Throws JobRefused where a script refused.
void throw_if_refused(const redisReply& reply, const std::string& script) {
  if (text_of(element(reply, 0, script)) != "refused") return;
  const auto why = text_of(element(reply, 1, script));
  if (why.empty()) throw RedisRefused("script {}: refused, expected a reason", script);
  throw JobRefused(why);
}

/// Returns a whole number among a script's answers, which Lua may print with an exponent.
int64_t number_at(const redisReply& reply, size_t index, const std::string& script) {
  constexpr double kMost = 9e18;
  const auto text = text_of(element(reply, index, script));
  const auto value = parse_number<double>(text);
  if (!value || !(std::abs(*value) < kMost))
    throw RedisRefused("script {}: answer {} is '{}', expected a whole number", script, index, printable(text));
  return *value;
}

class PublishedWakeUps final : public WakeUps {
 public:
  explicit PublishedWakeUps(std::unique_ptr<RedisTransport> messages) : messages_(std::move(messages)) {}
  int descriptor() const override { return messages_->descriptor(); }
  bool take() override {
    bool any = false;
    while (messages_->try_receive("SUBSCRIBE")) any = true;
    return any;
  }

 private:
  std::unique_ptr<RedisTransport> messages_;
};

}  // namespace

Script script_of(std::string text) {
  auto sha1 = hex_digest("SHA1", text);  // Redis names scripts so; nothing depends on its strength
  return {std::move(text), std::move(sha1)};
}

RedisQueue::RedisQueue(RedisClient& client, QueueSettings settings, const Scripts& scripts)
    : client_(client), settings_(std::move(settings)), prefix_("{" + settings_.prefix + "}:"), scripts_(scripts) {}

Reply RedisQueue::run(const std::string& name, const Arguments& arguments) {
  const auto& script = scripts_.at(name);
  auto reply = client_.script(script.text, script.sha1, {prefix_}, script_arguments(settings_.events, arguments));
  throw_if_refused(*reply, name);
  return reply;
}

std::string RedisQueue::run_word(const std::string& name, const Arguments& arguments) {
  const auto reply = run(name, arguments);
  return text_of(element(*reply, 0, name));
}

Directive RedisQueue::run_directive(const std::string& name, const Arguments& arguments) {
  const auto word = run_word(name, arguments);
  if (word == "lost") return Directive::lost;
  if (word == "cancel") return Directive::cancel;
  return word == "stop" ? Directive::stop : Directive::proceed;
}

RedisQueue::Arguments RedisQueue::lease_arguments(const Lease& lease) const {
  return script_arguments(lease.job, lease.fence, lease.token, lease.agent);
}

bool RedisQueue::create_sweep(const SweepSpec& sweep) {
  check(sweep);
  return run_word("create_sweep", script_arguments(sweep.id, sweep_fields(sweep))) == "ok";
}

bool RedisQueue::submit(const JobSpec& job) { return submit_all({&job, 1}).front(); }

std::vector<bool> RedisQueue::submit_all(std::span<const JobSpec> jobs) {
  for (const auto& job : jobs) check(job);
  const auto& script = scripts_.at("submit");
  std::vector<bool> added;
  std::vector<Arguments> calls;
  size_t in_call = 0, bytes_in_call = 0;
  const auto send = [&] {
    // All answers of a pipeline are there before the first refusal is thrown.
    for (const auto& reply : client_.scripts(script.text, script.sha1, {prefix_}, calls)) {
      throw_if_refused(*reply, "submit");
      for (size_t i = 1; i < reply->elements; ++i) added.push_back(text_of(*reply->element[i]) == "ok");
    }
    calls.clear();
    in_call = 0;
  };
  for (const auto& job : jobs) {
    const auto fields = submitted_fields(job);
    size_t bytes = 0;
    for (const auto& field : fields) bytes += field.size();
    if (in_call == kJobsInScript || (in_call > 0 && bytes_in_call + bytes > kBytesInScript)) {
      if (calls.size() == kScriptsInPipeline) send();
      in_call = 0;
    }
    if (in_call == 0) {
      calls.push_back(script_arguments(settings_.events));
      bytes_in_call = 0;
    }
    append(calls.back(), script_arguments(job.id, job.sweep, job.trial, waiting_shape(job), job.priority,
                                          job.after.size(), job.after, fields.size(), fields));
    ++in_call;
    bytes_in_call += bytes;
  }
  if (!calls.empty()) send();
  if (added.size() != jobs.size())
    throw RedisRefused("script submit: {} answers, expected {}; do programs of different versions share this Redis?",
                       added.size(), jobs.size());
  return added;
}

RedisQueue::Arguments RedisQueue::claim_arguments(const ClaimRequest& request) const {
  check(request);
  return script_arguments(request.agent, request.token,
                          request.free_of_hosts.empty() ? std::to_string(request.free_cpus)
                                                        : fmt::format("{}", fmt::join(request.free_of_hosts, ",")),
                          request.free_gpus, request.term, shared_.sweep_and_creation,
                          request.runs_programs ? fmt::format("any {}", fmt::join(request.lacking_programs, " ")) : "");
}

std::optional<Lease> RedisQueue::read_lease(const ClaimRequest& request, const redisReply& reply, size_t first) {
  const auto part = [&](size_t index) -> const redisReply& { return element(reply, first + index, "claim"); };
  const auto id = text_of(part(1));
  const auto fields = packed_fields(text_of(part(3)));
  try {
    auto record = record_of(id, fields);
    if (record.spec.settings == kSweepSettings) {
      const auto sweep = fmt::format("{} {}", record.spec.sweep, text_of(part(5)));
      if (auto settings = text_of(part(4)); settings != kSweepSettings) shared_ = {sweep, std::move(settings)};
      // Where the sweep is gone, the agent refuses the word and names the job.
      if (shared_.sweep_and_creation == sweep && !shared_.settings.empty()) record.spec.settings = shared_.settings;
    }
    check(record.spec);
    return Lease{.job = id,
                 .agent = record.agent,
                 .fence = record.fence,
                 .token = request.token,
                 .attempt = record.attempt,
                 .failed_on = record.failed_on,
                 .deadline_ms = number_at(reply, first + 2, "claim"),
                 .spec = record.spec,
                 .ranks = record.attempt_ranks,
                 .checkpoint = record.checkpoint,
                 .history = record.history};
  } catch (const JobsError& error) {
    const auto lease = fields.find("lease");
    run("unreadable", {id, lease == fields.end() ? "" : lease->second.substr(0, lease->second.find(' ')), request.token,
                       request.agent, printable_utf8(std::string(error.what()).substr(0, Limits::kError / 4))});
    return std::nullopt;
  }
}

std::optional<Lease> RedisQueue::claim(const ClaimRequest& request) {
  const auto arguments = claim_arguments(request);
  for (int i = 0; i < kClaimRounds; ++i) {
    const auto reply = run("claim", arguments);
    const auto word = text_of(element(*reply, 0, "claim"));
    if (word == "none") return std::nullopt;
    if (word == "again") continue;
    if (auto lease = read_lease(request, *reply, 0)) return lease;
  }
  return std::nullopt;
}

Directive RedisQueue::renew(const Lease& lease, Milliseconds term) {
  return run_directive("renew", script_arguments(lease_arguments(lease), term));
}

Directive RedisQueue::report(const Lease& lease, const JobReport& unbounded) {
  const auto report = bounded(unbounded);
  const bool finite = report.objective && std::isfinite(*report.objective);
  const Texts lines(report.log_lines.end() - std::min<size_t>(report.log_lines.size(), Limits::kLogLines),
                    report.log_lines.end());
  return run_directive(
      "report", script_arguments(lease_arguments(lease), report.step, report.total_steps, report.eta_seconds,
                                 report.loss, report.iteration, finite ? "finite" : (report.objective ? "nan" : "none"),
                                 finite ? report.objective : std::nullopt, json_text(report.metrics), report.checkpoint,
                                 report.log_lines.size(), Limits::kLogLines, report.history, lines));
}

bool RedisQueue::propose(const Lease& lease, const Parameters& parameters) {
  return run_word("propose", script_arguments(lease_arguments(lease), nlohmann::json(parameters).dump())) == "ok";
}

RedisQueue::Arguments RedisQueue::finish_arguments(const Lease& lease, const JobResult& unbounded,
                                                   double jitter) const {
  const auto result = bounded(unbounded);
  return script_arguments(lease_arguments(lease), to_string(result.outcome), json_text(result.metrics),
                          result.objective, result.checkpoint, result.error, result.exit_code, result.seconds, jitter,
                          settings_.backoff_base, settings_.backoff_cap, result.unasked ? "1" : "",
                          settings_.most_preemptions, result.history);
}

bool RedisQueue::finish(const Lease& lease, const JobResult& result, double jitter) {
  return run_word("finish", finish_arguments(lease, result, jitter)) == "ok";
}

FinishedAndNext RedisQueue::finish_and_claim(const Lease& lease, const JobResult& result, double jitter,
                                             const ClaimRequest& request) {
  const auto reply = run("finish", script_arguments(finish_arguments(lease, result, jitter), claim_arguments(request)));
  FinishedAndNext done{.finished = text_of(element(*reply, 0, "finish")) == "ok"};
  const auto word = text_of(element(*reply, 1, "finish"));
  if (word == "none") return done;
  if (word != "again") done.next = read_lease(request, *reply, 1);
  if (!done.next) done.next = claim(request);
  return done;
}

CancelOutcome RedisQueue::cancel(const std::string& id) {
  const auto word = run_word("cancel", {id});
  if (word == "final") return CancelOutcome::already_final;
  return word == "requested" ? CancelOutcome::requested : CancelOutcome::cancelled;
}

int64_t RedisQueue::cancel_sweep(const std::string& sweep) {
  for (const char* what = "start";; what = "continue") {
    const auto reply = run("cancel_sweep", {sweep, what});
    if (text_of(element(*reply, 0, "cancel_sweep")) != "again") return number_at(*reply, 1, "cancel_sweep");
  }
}

void RedisQueue::retry(const std::string& id) { run("retry", {id}); }

void RedisQueue::set_priority(const std::string& id, int64_t priority) {
  if (std::abs(priority) > Limits::kPriority)
    throw JobRefused("job {}: priority {}, expected {} to {}", id, priority, -Limits::kPriority, Limits::kPriority);
  run("priority", script_arguments(id, priority));
}

void RedisQueue::pause(const std::string& sweep) { run("pause", {sweep, "paused"}); }

void RedisQueue::resume(const std::string& sweep) {
  while (run_word("pause", {sweep, "running"}) == "again") {
  }
}

ReapCounts RedisQueue::reap() {
  const auto reply = run("reap", script_arguments(settings_.keep_finished, settings_.keep_jobs, settings_.most_losses,
                                                  settings_.backoff_cap, settings_.loss_backoff_cap));
  const auto count = [&](size_t index) { return number_at(*reply, index, "reap"); };
  return {.lost_leases = count(1),
          .orphans = count(2),
          .promoted = count(3),
          .released = count(4),
          .expired = count(5),
          .more = count(6) != 0,
          .agents = count(7)};
}

Retention RedisQueue::agree_to_keep(const Retention& keep, bool change) {
  const auto reply = run("agree", script_arguments(keep.time, keep.jobs, change ? "1" : "", keep.artifact_bytes, ""));
  const auto number = [&](size_t index) { return number_at(*reply, index, "agree"); };
  Retention rules{Milliseconds(number(1)), number(2), {}};
  if (!text_of(element(*reply, 3, "agree")).empty()) rules.artifact_bytes = number(3);
  return rules;
}

std::string RedisQueue::identity(const std::string& proposal) {
  const auto reply = run("agree", {"", "", "", "", proposal});
  return text_of(element(*reply, 4, "agree"));
}

std::optional<StoreState> RedisQueue::store_state() {
  StoreState state{.identity = identity("")};
  try {
    const auto info = client_.pipeline({{"INFO", "memory"}, {"INFO", "stats"}});
    state.eviction_policy = info_field(text_of(*info[0]), "maxmemory_policy");
    state.evicted_keys = parse_number<int64_t>(info_field(text_of(*info[1]), "evicted_keys"));
  } catch (const RedisRefused&) {  // this user may not ask
  }
  return state;
}

void RedisQueue::heartbeat_agent(const AgentInfo& agent) {
  check(agent);
  run("heartbeat_agent",
      script_arguments(agent.name, agent.host, agent.version, agent.pid, agent.cpus, agent.gpus, agent.jobs,
                       agent.leaving ? "1" : "0", agent.trouble, agent.runs_programs ? "1" : ""));
}

KeptArtifact RedisQueue::run_artifact(const std::string& what, const Lease& lease, const Artifact& artifact,
                                      const std::vector<std::string>& roles, bool ended) {
  const bool here = artifact.store == kRedisStore;
  auto arguments = script_arguments(lease_arguments(lease), what, settings_.artifact_bytes, here ? artifact.bytes() : 0,
                                    artifact.name, nlohmann::json(roles).dump(), ended ? "1" : "",
                                    artifact_text(artifact), artifact.store);
  for (const auto& [file, stored] : artifact.files)
    if (here && what == "keep")
      append(arguments, redis_part_keys(fmt::format("{}/{}/{}", lease.job, artifact.name, file), stored.bytes));
  const auto reply = run("artifact", arguments);
  const auto word = text_of(element(*reply, 0, "artifact"));
  KeptArtifact kept;
  if (word == "lost") kept.answer = KeptArtifact::Answer::lost;
  if (word == "missing") kept.answer = KeptArtifact::Answer::missing;
  if (word == "full") {
    kept.answer = KeptArtifact::Answer::full;
    kept.used = number_at(*reply, 1, "artifact");
    kept.quota = number_at(*reply, 2, "artifact");
  }
  for (size_t i = 1; word == "ok" && i < reply->elements; ++i) kept.dropped.push_back(text_of(*reply->element[i]));
  return kept;
}

KeptArtifact RedisQueue::may_store(const Lease& lease, const Artifact& artifact,
                                   const std::vector<std::string>& roles) {
  return run_artifact("room", lease, artifact, roles, false);
}

KeptArtifact RedisQueue::keep(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                              bool ended) {
  return run_artifact("keep", lease, artifact, roles, ended);
}

void RedisQueue::note_trouble_of_artifacts(const Lease& lease, const std::string& trouble) {
  run("artifact",
      script_arguments(lease_arguments(lease), "trouble", printable_utf8(trouble.substr(0, Limits::kTrouble))));
}

JobArtifacts RedisQueue::artifacts(const std::string& job) {
  return artifacts_of(fields_of(*client_.call({"HGETALL", prefix_ + "job:" + job + ":artifacts"})));
}

std::vector<ForgottenArtifacts> RedisQueue::forgotten_artifacts() {
  std::vector<ForgottenArtifacts> found;
  for (const auto& text : texts_of(*client_.call({"SRANDMEMBER", prefix_ + "artifacts:gone", "16"}))) {
    const auto space = text.rfind(' ');
    if (space != std::string::npos && is_id(text.substr(space + 1)))
      found.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return found;
}

void RedisQueue::removed(const ForgottenArtifacts& artifacts) {
  client_.call({"SREM", prefix_ + "artifacts:gone", artifacts.store + " " + artifacts.job});
}

std::unique_ptr<WakeUps> RedisQueue::wake_ups() {
  return std::make_unique<PublishedWakeUps>(client_.subscribe(prefix_ + "wake"));
}

bool RedisQueue::none_in(const std::vector<JobState>& states) {
  // One command, so the answer is about one moment: a job that moves between two of these sets is never overlooked.
  Arguments exists = {"EXISTS"};
  for (const auto state : states) exists.push_back(prefix_ + "state:" + to_string(state));
  return integer_of(*client_.call(exists)) == 0;
}

std::map<Demand, int64_t> RedisQueue::waiting() {
  const auto shapes = texts_of(*client_.call({"SMEMBERS", prefix_ + "shapes"}));
  std::vector<Arguments> counts;
  for (const auto& shape : shapes) counts.push_back({"ZCARD", prefix_ + "waiting:" + shape});
  const auto replies = client_.pipeline(counts);
  std::map<Demand, int64_t> found;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto jobs = integer_of(*replies[i]);
    const auto shape = parse_waiting_shape(shapes[i]);
    if (shape && jobs > 0) found[*shape] += jobs;
  }
  return found;
}

std::optional<JobRecord> RedisQueue::find(const std::string& id) {
  const auto reply = client_.call({"HGETALL", prefix_ + "job:" + id});
  const auto fields = fields_of(*reply);
  if (fields.empty()) return std::nullopt;
  return record_of(id, fields);
}

}  // namespace foretime::jobs
