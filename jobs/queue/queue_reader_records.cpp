#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/hash_reader.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/limits.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::jobs {
namespace {

constexpr size_t kFieldsInPipeline = 1000;  // one word each
constexpr int kTornReads = 10;

/// What the queue checks when it writes holds of what is read.
template <class Spec>
void check_read(const std::string& key, const Spec& spec) {
  try {
    check(spec);
  } catch (const SweepError& error) {
    throw JobsError(fmt::format("{}: {}; was it written by another program?", key, printable_utf8(error.what())));
  }
}

bool maximizes(const std::string& goal) {
  if (goal != "maximize" && goal != "minimize")
    throw JobsError(fmt::format("'{}': expected maximize or minimize", goal));
  return goal == "maximize";
}

std::string sweep_state(const std::string& state) {
  if (state != "running" && state != "paused" && state != "cancelled")
    throw JobsError(fmt::format("'{}': expected running, paused or cancelled", state));
  return state;
}

/// A span of time that can be shown.
void check_seconds(const HashReader& read, const std::string& field, double value) {
  if (!(std::abs(value) < 1e12)) read.damaged(field, number_text(value), "a number of seconds");
}

JobRecord checked_record(const std::string& key, const std::string& id, const Fields& fields) {
  auto record = record_of(id, fields, key);
  check_read(key, record.spec);
  const HashReader read(key, fields);
  check_seconds(read, "eta_s", record.eta_seconds);
  check_seconds(read, "seconds", record.seconds);
  return record;
}

}  // namespace

std::optional<JobRecord> QueueReader::job(const std::string& id) {
  auto found = jobs({id});
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::vector<JobRecord> QueueReader::jobs(const std::vector<std::string>& ids) {
  std::vector<JobRecord> records;
  records.reserve(ids.size());
  for (size_t from = 0; from < ids.size(); from += kHashesInPipeline) {
    const size_t to = std::min(ids.size(), from + kHashesInPipeline);
    std::vector<Arguments> calls;
    for (size_t i = from; i < to; ++i) calls.push_back({"HGETALL", key("job:" + ids[i])});
    const auto replies = ask(calls);
    for (size_t i = from; i < to; ++i) {
      const auto fields = fields_of(*replies[i - from]);
      if (!fields.empty()) records.push_back(checked_record(key("job:" + ids[i]), ids[i], fields));
    }
  }
  return records;
}

std::optional<SweepRecord> QueueReader::sweep(const std::string& id) {
  const auto name = key("sweep:" + id);
  const auto replies = ask({{"HGETALL", name}});
  const auto fields = fields_of(*replies[0]);
  if (fields.empty()) return std::nullopt;
  const HashReader read(name, fields);
  SweepRecord record;
  auto& spec = record.spec;
  spec.id = id;
  spec.name = read.text("name", Limits::kName);
  spec.method = read.text("method", Limits::kName);
  spec.definition = read.text("definition", Limits::kSettings);
  spec.metric = read.text("metric", Limits::kName);
  spec.maximize = read.word("goal", maximizes);
  spec.trials = read.integer("trials");
  spec.seed = read.natural("seed", 1);
  spec.halving.rungs = read.json<std::vector<int64_t>>("rungs", Limits::kParameters);
  spec.halving.eta = read.number("eta").value_or(spec.halving.eta);
  check_read(name, spec);
  record.state = read.word("state", sweep_state);
  record.created_ms = read.integer("created_ms");
  record.proposals = read.integer("proposals");
  record.jobs = count_states(ids_of_sweep(id));
  return record;
}

std::map<JobState, int64_t> QueueReader::no_jobs() {
  std::map<JobState, int64_t> counts;
  for (int state = 0; state <= static_cast<int>(JobState::dead); ++state) counts[static_cast<JobState>(state)] = 0;
  return counts;
}

std::map<JobState, int64_t> QueueReader::count_states(const std::vector<std::string>& ids) {
  auto counts = no_jobs();
  for (size_t from = 0; from < ids.size(); from += kFieldsInPipeline) {
    const size_t to = std::min(ids.size(), from + kFieldsInPipeline);
    std::vector<Arguments> calls;
    for (size_t i = from; i < to; ++i) calls.push_back({"HGET", key("job:" + ids[i]), "state"});
    const auto replies = ask(calls);
    for (size_t i = from; i < to; ++i) {
      if (replies[i - from]->type == REDIS_REPLY_NIL) continue;
      const Fields state = {{"state", text_of(*replies[i - from])}};
      ++counts[HashReader(key("job:" + ids[i]), state).word("state", parse_job_state)];
    }
  }
  return counts;
}

std::vector<std::string> QueueReader::log(const std::string& id, int64_t& total) {
  const auto list = key("job:" + id + ":log");
  const Arguments count = {"HGET", key("job:" + id), "log_lines"};
  std::vector<Reply> replies;
  // The ring and its count belong together where the count did not change around it. A job that writes without end is
  // read as it comes.
  for (int i = 0; i < kTornReads; ++i) {
    replies = ask({count, {"LRANGE", list, std::to_string(-Limits::kLogLines), "-1"}, count});
    if (text_of(*replies[0]) == text_of(*replies[2])) break;
  }
  const Fields fields = {{"log_lines", text_of(*replies[2])}};
  total = HashReader(key("job:" + id), fields).integer("log_lines");
  auto lines = texts_of(*replies[1]);
  for (const auto& line : lines) {
    if (line.size() > Limits::kLogLine)
      throw JobsError(fmt::format("{}: a line of {} bytes, expected at most {}; was it written by another program?",
                                  list, line.size(), Limits::kLogLine));
  }
  return lines;
}

}  // namespace foretime::jobs
