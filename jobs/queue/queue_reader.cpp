#include "jobs/queue/queue_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/numbers.h"
#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/job_hash.h"
#include "jobs/queue/packed_record.h"

namespace foretime::jobs {
namespace {

constexpr int64_t kIdsInAnswer = 100'000;  // an id has at most 64 bytes, so an answer is far below kLargestReply
constexpr int64_t kMostIdsOfSortedSet = 1'000'000;
constexpr size_t kMostListedMeanings = 5;  // ids that a message about an ambiguous prefix lists

std::string shown(const std::string& text) { return fmt::format("'{}'", printable_utf8(text.substr(0, 64))); }

constexpr size_t kMostNamedDamage = 20;

/// Returns the one of `found` that `prefix` means. `what`: job or sweep.
std::string only(const std::string& what, const std::string& prefix, const std::vector<std::string>& found) {
  if (!found.empty() && (found.size() == 1 || found.front() == prefix)) return found.front();
  if (found.empty())
    throw JobUnknown(
        "no {} has an id that begins with {}; "
        "`foretime status` lists jobs, `foretime leaderboard` and `foretime submit` name sweeps",
        what, shown(prefix));
  const auto last = found.begin() + std::min(found.size(), kMostListedMeanings);
  throw JobRefused("{} {} is ambiguous: it could be {}{}; give more digits", what, shown(prefix),
                   fmt::join(found.begin(), last, ", "), found.size() > kMostListedMeanings ? ", …" : "");
}

constexpr size_t kFieldsInPipeline = 1000;  // commands that read a single field
constexpr int kTornReads = 10;

/// Throws DamagedRecord where what was read breaks a rule that the queue checks when it writes.
template <class Spec>
void check_read(const std::string& key, const Spec& spec) {
  try {
    check(spec);
  } catch (const SweepError& error) {
    throw DamagedRecord("{}: {}; was it written by another program?", key, printable_utf8(error.what()));
  }
}

std::string sweep_state(const std::string& state) {
  if (state != "running" && state != "paused" && state != "cancelled")
    throw JobsError("'{}': expected running, paused or cancelled", state);
  return state;
}

/// Throws DamagedRecord where a span of time is too long to be shown.
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

/// Returns what can be read of a record, with a mark where it is damaged.
JobRecord marked_record(const std::string& key, const std::string& id, const Fields& fields) {
  try {
    return checked_record(key, id, fields);
  } catch (const JobsError& error) {
    auto record = salvaged_record(id, fields, key);
    record.unreadable = error.what();
    for (double* seconds : {&record.eta_seconds, &record.seconds})
      if (!(std::abs(*seconds) < 1e12)) *seconds = 0;
    return record;
  }
}

}  // namespace

QueueReader::QueueReader(RedisClient& client, QueueSettings settings)
    : client_(client), settings_(std::move(settings)), prefix_("{" + settings_.prefix + "}:") {}

void QueueReader::expect_protocol() {
  if (knows_protocol_) return;
  try {
    const auto replies =
        client_.pipeline({{"HGET", key("settings"), "protocol"}, {"EXISTS", key("ids"), key("sweeps")}});
    const auto protocol = text_of(*replies[0]);
    if (protocol.empty() && integer_of(*replies[1]) == 0) return;  // nobody has used the queue
    if (protocol != std::to_string(kQueueProtocol))
      throw JobRefused("the queue {} has protocol {}, expected {}: use the foretime that wrote it, or another --prefix",
                       prefix_, protocol.empty() ? "none" : printable_utf8(protocol.substr(0, 40)), kQueueProtocol);
    knows_protocol_ = true;
  } catch (const RedisRefused& error) {  // settings of another type are named where they are read
    if (std::string(error.what()).find("WRONGTYPE") == std::string::npos) throw;
  }
}

std::vector<Reply> QueueReader::ask(const std::vector<Arguments>& calls, std::map<size_t, std::string>* wrong) {
  expect_protocol();
  try {
    return client_.pipeline(calls);
  } catch (const RedisAnswerTooLarge&) {
  } catch (const RedisRefused& error) {
    if (std::string(error.what()).find("WRONGTYPE") == std::string::npos) throw;
  }
  // The answer does not say which key it was.
  std::vector<Reply> replies;
  const auto note = [&](const Arguments& call, const std::string& what) {
    const DamagedRecord named("{}: {}; was it written by another program?", printable_utf8(call.at(1)), what);
    if (wrong == nullptr) throw named;
    (*wrong)[replies.size()] = named.what();
    replies.emplace_back();
  };
  for (const auto& call : calls) {
    try {
      replies.push_back(client_.call(call));
    } catch (const RedisAnswerTooLarge&) {
      note(call,
           fmt::format("it has more than {} MiB, expected at most {}", kLargestReply >> 20, Limits::kRecord >> 20));
    } catch (const RedisRefused& error) {
      if (std::string(error.what()).find("WRONGTYPE") == std::string::npos) throw;
      note(call, "it is not of the type that docs/reference/jobs.md says");
    }
  }
  return replies;
}

void QueueReader::ask_each(const std::string& kind, const std::vector<std::string>& names, const Arguments& command,
                           const std::function<void(const std::string&, const redisReply&)>& take,
                           const std::function<void(const std::string&, const std::string&)>& mark) {
  const size_t batch = command.front() == "HGETALL" ? kHashesInPipeline : kFieldsInPipeline;
  for (size_t from = 0; from < names.size(); from += batch) {
    const size_t to = std::min(names.size(), from + batch);
    std::vector<Arguments> calls;
    for (size_t i = from; i < to; ++i) {
      calls.push_back(command);
      calls.back().insert(calls.back().begin() + 1, key(kind + names[i]));
    }
    std::map<size_t, std::string> wrong;
    const auto replies = ask(calls, mark ? &wrong : nullptr);
    for (size_t i = from; i < to; ++i) {
      if (const auto found = wrong.find(i - from); found != wrong.end()) mark(names[i], found->second);
      else take(names[i], *replies[i - from]);
    }
  }
}

void QueueReader::note_damage(std::string what) {
  if (damage_.size() < kMostNamedDamage && std::ranges::find(damage_, what) == damage_.end())
    damage_.push_back(std::move(what));
}

std::vector<std::string> QueueReader::only_ids(const std::string& key, std::vector<std::string> members) {
  std::erase_if(members, [&](const std::string& id) {
    if (is_id(id)) return false;
    note_damage(fmt::format("{}: member {} is no id: expected 1 to 64 letters, digits, - and _", key, shown(id)));
    return true;
  });
  return members;
}

std::vector<std::string> QueueReader::ids(const std::string& command, const std::string& key, int64_t limit) {
  std::vector<std::string> all;
  for (int64_t from = 0; std::ssize(all) < limit;) {
    const auto count = std::min(kIdsInAnswer, limit - std::ssize(all));
    std::map<size_t, std::string> wrong;
    const auto replies = ask({{command, key, std::to_string(from), std::to_string(from + count - 1)}}, &wrong);
    if (!wrong.empty()) {
      note_damage(wrong.begin()->second);
      break;
    }
    auto members = texts_of(*replies[0]);
    const bool last = std::ssize(members) < count;
    for (auto& id : only_ids(key, std::move(members))) all.push_back(std::move(id));
    if (last) break;
    from += count;
  }
  return all;
}

std::vector<std::string> QueueReader::jobs_like(const std::string& prefix) {
  if (!is_id(prefix)) return {};
  std::map<size_t, std::string> wrong;
  const auto replies = ask({{"ZRANGEBYLEX", key("ids"), "[" + prefix, "[" + prefix + "\xff", "LIMIT", "0",
                             std::to_string(kMostListedMeanings + 1)}},
                           &wrong);
  if (!wrong.empty()) {
    note_damage(wrong.begin()->second);
    return {};
  }
  return only_ids(key("ids"), texts_of(*replies[0]));
}

std::vector<std::string> QueueReader::sweeps_like(const std::string& prefix) {
  if (!is_id(prefix)) return {};
  std::map<size_t, std::string> wrong;
  const auto replies = ask({{"ZSCORE", key("sweeps"), prefix}}, &wrong);
  if (wrong.empty() && replies[0]->type != REDIS_REPLY_NIL) return {prefix};
  auto found = ids("ZREVRANGE", key("sweeps"), kMostIdsOfSortedSet);
  std::erase_if(found, [&](const auto& id) { return !id.starts_with(prefix); });
  return found;
}

std::string QueueReader::resolve_job(const std::string& prefix) { return only("job", prefix, jobs_like(prefix)); }

std::string QueueReader::resolve_sweep(const std::string& prefix) { return only("sweep", prefix, sweeps_like(prefix)); }

bool QueueReader::is_sweep(const std::string& prefix) {
  const auto sweeps = sweeps_like(prefix);
  if (sweeps.empty()) return false;
  const auto jobs = jobs_like(prefix);
  const bool full_sweep = sweeps.front() == prefix, full_job = !jobs.empty() && jobs.front() == prefix;
  if (jobs.empty() || (full_sweep && !full_job)) return true;
  if (full_job && !full_sweep) return false;
  throw JobRefused("{} is ambiguous: it could be sweep {} or job {}; give more digits", shown(prefix), sweeps.front(),
                   jobs.front());
}

std::vector<std::string> QueueReader::ids_in(JobState state, int64_t limit) {
  return ids("ZREVRANGE", key("state:" + to_string(state)), limit);
}

std::vector<std::string> QueueReader::ids_of_sweep(const std::string& sweep) {
  return ids("ZRANGE", key("sweep:" + sweep + ":jobs"), kMostIdsOfSortedSet);
}

std::vector<std::string> QueueReader::sweeps(int64_t limit) { return ids("ZREVRANGE", key("sweeps"), limit); }

std::optional<JobRecord> QueueReader::job(const std::string& id) {
  auto found = jobs({id});
  if (found.empty()) return std::nullopt;
  auto& spec = found.front().spec;
  if (spec.settings == kSweepSettings) {
    std::map<size_t, std::string> wrong;
    const auto replies = ask({{"HGET", key("sweep:" + spec.sweep), "settings"}}, &wrong);
    if (!wrong.empty()) {
      if (found.front().unreadable.empty()) found.front().unreadable = wrong.begin()->second;
    } else if (const auto shared = text_of(*replies[0]); !shared.empty()) {
      spec.settings = shared;
    }
  }
  return std::move(found.front());
}

JobArtifacts QueueReader::artifacts(const std::string& id) {
  std::map<size_t, std::string> wrong;
  const auto replies = ask({{"HGETALL", key("job:" + id + ":artifacts")}}, &wrong);
  JobArtifacts found;
  if (wrong.empty()) found = artifacts_of(fields_of(*replies[0]));
  else found.unreadable = wrong.begin()->second;
  return found;
}

std::string QueueReader::identity() { return text_of(*ask({{"HGET", key("settings"), "identity"}})[0]); }

std::vector<JobRecord> QueueReader::jobs(const std::vector<std::string>& ids) {
  std::vector<JobRecord> records;
  records.reserve(ids.size());
  const auto take = [&](const std::string& id, const redisReply& reply) {
    const auto fields = fields_of(reply);
    if (!fields.empty()) records.push_back(marked_record(key("job:" + id), id, fields));
  };
  const auto mark = [&](const std::string& id, const std::string& why) {
    auto& record = records.emplace_back();
    record.spec.id = id;
    record.unreadable = why;
  };
  ask_each("job:", ids, {"HGETALL"}, take, mark);
  find_lost_leases(records);
  return records;
}

void QueueReader::find_lost_leases(std::vector<JobRecord>& records) {
  std::vector<Arguments> calls = {{"TIME"}};
  std::vector<JobRecord*> active;
  for (auto& record : records) {
    if (record.state != JobState::active || !record.unreadable.empty()) continue;
    active.push_back(&record);
    calls.push_back({"ZSCORE", key("leases"), record.spec.id});
  }
  if (active.empty()) return;
  std::map<size_t, std::string> wrong;  // statistics() reports a key of another type
  const auto replies = ask(calls, &wrong);
  const auto clock = texts_of(*replies[0]);
  if (clock.size() != 2) return;
  const double now =
      1e3 * parse_number<double>(clock[0]).value_or(0) + 1e-3 * parse_number<double>(clock[1]).value_or(0);
  for (size_t i = 0; i < active.size(); ++i) {
    if (!replies[i + 1]) continue;
    const double overdue_ms = now - parse_number<double>(text_of(*replies[i + 1])).value_or(now);
    // Agents hear of a lost lease and take the job at the next reaping: a moment is nothing to show.
    constexpr double kMoment = 2000;
    if (overdue_ms >= kMoment) active[i]->overdue_ms = overdue_ms;
  }
}

void QueueReader::scan(const std::vector<std::string>& ids, const std::vector<std::string>& fields, const Take& take) {
  Arguments command = {"HMGET"};
  command.insert(command.end(), fields.begin(), fields.end());
  for (const auto* packed : {"spec", "lease"}) {
    const auto in_it = [&](const auto& field) { return packed_in(field) == packed; };
    if (std::any_of(fields.begin(), fields.end(), in_it)) command.emplace_back(packed);
  }
  std::vector<std::string_view> values(fields.size());
  size_t at = 0;
  const auto found = [&](const std::string& id, const redisReply& reply) {
    bool any = false;
    Fields packed, all;
    for (size_t i = 0; i + 1 < command.size(); ++i) {
      const bool text = i < reply.elements && reply.element[i]->type == REDIS_REPLY_STRING;
      const auto value = text ? std::string_view(reply.element[i]->str, reply.element[i]->len) : std::string_view();
      any = any || text;
      if (i < fields.size()) values[i] = value;
      else if (text) packed[command[i + 1]] = value;
    }
    try {
      all = unpacked(packed, id);
    } catch (const JobsError&) {  // what it would say is missing
    }
    for (size_t i = 0; i < fields.size(); ++i)
      if (const auto said = all.find(fields[i]); values[i].empty() && said != all.end()) values[i] = said->second;
    if (any) take(at, values);
    ++at;
  };
  ask_each("job:", ids, command, found, [&](const std::string&, const std::string&) { ++at; });
}

std::vector<std::optional<JobState>> QueueReader::states(const std::vector<std::string>& ids, int64_t& unreadable) {
  std::vector<std::optional<JobState>> found;
  found.reserve(ids.size());
  const auto take = [&](const std::string&, const redisReply& reply) {
    found.push_back(reply.type == REDIS_REPLY_NIL ? std::nullopt : configs::choice_named<JobState>(text_of(reply)));
    if (!found.back() && reply.type != REDIS_REPLY_NIL) ++unreadable;
  };
  ask_each("job:", ids, {"HGET", "state"}, take, [&](const std::string&, const std::string&) {
    found.emplace_back();
    ++unreadable;
  });
  return found;
}

TrialChanges QueueReader::changes(const std::string& sweep, int64_t from) {
  TrialChanges found;
  const auto name = key("sweep:" + sweep);
  for (;;) {
    const auto replies =
        ask({{"HGET", name, "created_ms"},
             {"LRANGE", name + ":changes", std::to_string(from), std::to_string(from + kIdsInAnswer - 1)}});
    const Fields fields = {{"created_ms", text_of(*replies[0])}};
    found.created_ms = HashReader(name, fields).time("created_ms");
    auto page = texts_of(*replies[1]);
    from += std::ssize(page);
    const bool last = std::ssize(page) < kIdsInAnswer;
    page = only_ids(name + ":changes", std::move(page));
    found.ids.insert(found.ids.end(), std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
    if (last) return found;
  }
}

std::vector<JobRecord> QueueReader::trials(const std::vector<std::string>& ids) {
  static const Arguments kFields = {"kind", "sweep", "trial",     "parameters",     "deferred", "metric",
                                    "goal", "state", "objective", "best_objective", "spec"};
  Arguments command = {"HMGET"};
  command.insert(command.end(), kFields.begin(), kFields.end());
  std::vector<JobRecord> records;
  ask_each(
      "job:", ids, command,
      [&](const std::string& id, const redisReply& reply) {
        const auto texts = texts_of(reply);
        Fields fields;
        for (size_t i = 0; i < std::min(texts.size(), kFields.size()); ++i) fields[kFields[i]] = texts[i];
        if (!fields["state"].empty()) records.push_back(salvaged_record(id, fields, key("job:" + id)));
      },
      [](const std::string&, const std::string&) {});
  return records;
}

std::optional<SweepRecord> QueueReader::sweep(const std::string& id) {
  const auto name = key("sweep:" + id);
  std::map<size_t, std::string> wrong;
  const auto replies = ask({{"HGETALL", name}}, &wrong);
  SweepRecord record{.spec = {.id = id}, .state = "unreadable"};
  if (!wrong.empty()) {
    record.damage["record"] = wrong.begin()->second;
    return record;
  }
  const auto fields = fields_of(*replies[0]);
  if (fields.empty()) return std::nullopt;
  const HashReader read(name, fields);
  record.spec = salvaged_sweep(id, fields, name, record.damage);
  const auto marked = [&](const char* field, const auto& call) {
    try {
      call();
    } catch (const JobsError& error) {
      record.damage[field] = error.what();
    }
  };
  marked("record", [&] { check_read(name, record.spec); });
  marked("state", [&] { record.state = read.word("state", sweep_state); });
  marked("created_ms", [&] { record.created_ms = read.time("created_ms"); });
  marked("proposals", [&] { record.proposals = read.integer("proposals"); });
  return record;
}

std::map<JobState, int64_t> QueueReader::zero_counts() {
  std::map<JobState, int64_t> counts;
  for (int state = 0; state <= static_cast<int>(JobState::dead); ++state) counts[static_cast<JobState>(state)] = 0;
  return counts;
}

std::vector<std::string> QueueReader::log(const std::string& id, int64_t& total) {
  const auto list = key("job:" + id + ":log");
  const Arguments count = {"HGET", key("job:" + id), "log_lines"};
  std::vector<Reply> replies;
  std::map<size_t, std::string> wrong;
  // The ring and its count belong together if the count did not change meanwhile.
  for (int i = 0; i < kTornReads; ++i) {
    wrong.clear();
    replies = ask({count, {"LRANGE", list, std::to_string(-Limits::kLogLines), "-1"}, count}, &wrong);
    if (!wrong.empty() || text_of(*replies[0]) == text_of(*replies[2])) break;
  }
  if (wrong.contains(1)) throw DamagedRecord("{}", wrong.at(1));
  auto lines = texts_of(*replies[1]);
  const auto marked = [](const std::string& what) { return "[damaged: " + what + "]"; };
  for (auto& line : lines)
    if (line.size() > Limits::kLogLine)
      line = marked(fmt::format("{}: a line of {} bytes, expected at most {}; was it written by another program?", list,
                                line.size(), Limits::kLogLine));
  try {
    if (!wrong.empty()) throw DamagedRecord("{}", wrong.begin()->second);
    const Fields fields = {{"log_lines", text_of(*replies[2])}};
    total = HashReader(key("job:" + id), fields).integer("log_lines");
  } catch (const JobsError& error) {
    lines.push_back(marked(error.what()));
    total = std::ssize(lines);
  }
  return lines;
}

}  // namespace foretime::jobs
