#include "jobs/queue/job_hash.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/numbers.h"
#include "jobs/queue/packed_record.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {

std::string HashReader::text(const std::string& field, size_t limit) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return "";
  if (found->second.size() > limit)
    damaged(field, fmt::format("{} bytes", found->second.size()), fmt::format("at most {}", limit));
  return found->second;
}

int64_t HashReader::integer(const std::string& field, int64_t missing) const {
  const auto value = text(field, kNumber);
  if (value.empty()) return missing;
  const auto number = parse_number<int64_t>(value);
  if (!number) damaged(field, quoted(value), "an integer");
  return *number;
}

uint64_t HashReader::natural(const std::string& field, uint64_t missing) const {
  const auto value = text(field, kNumber);
  if (value.empty()) return missing;
  const auto number = parse_number<uint64_t>(value);
  if (!number) damaged(field, quoted(value), "an integer of 0 or more");
  return *number;
}

int64_t HashReader::time(const std::string& field) const {
  constexpr int64_t kLatest = 9'000'000'000'000'000;
  const auto value = integer(field);
  if (value < -kLatest || value > kLatest) damaged(field, quoted(text(field, kNumber)), "a time since 1970");
  return value;
}

std::optional<double> HashReader::number(const std::string& field) const {
  const auto value = text(field, kNumber);
  if (value.empty()) return std::nullopt;
  const auto parsed = parse_number<double>(value);
  if (!parsed) damaged(field, quoted(value), "a number");
  return parsed;
}

void HashReader::damaged(const std::string& field, const std::string& found, const std::string& expected) const {
  throw DamagedRecord("{}: field {}: {}, expected {}; was it written by another program?", who_, field, found,
                      expected);
}

std::string HashReader::quoted(const std::string& value) {
  return fmt::format("'{}'", printable_utf8(value.substr(0, 40)));
}

namespace {

/// Collects fields and values of the members that a visitor is shown.
struct FieldWriter {
  std::vector<std::string> list{};
  void add(const char* name, std::string value) {
    list.emplace_back(name);
    list.push_back(std::move(value));
  }
  void operator()(const char* name, const std::string& value, size_t) { add(name, value); }
  void operator()(const char* name, const int64_t& value) { add(name, std::to_string(value)); }
  void operator()(const char* name, const uint64_t& value) { add(name, std::to_string(value)); }
  void operator()(const char* name, const double& value) { add(name, number_text(value)); }
  void operator()(const char* name, const bool& value) { add(name, value ? "1" : ""); }
  void operator()(const char* name, const bool& maximize, Goal) { add(name, maximize ? "maximize" : "minimize"); }
  void operator()(const char* name, const JobKind& value) { add(name, to_string(value)); }
  template <class Value>
  void operator()(const char* name, const Value& value, size_t) {
    add(name, nlohmann::json(value).dump());
  }
};

bool maximizes(const std::string& goal) {
  if (goal != "maximize" && goal != "minimize") throw JobsError("'{}': expected maximize or minimize", goal);
  return goal == "maximize";
}

/// Sets members from the fields of a hash. Passes errors to `salvage` and keeps the default; else throws them.
struct FieldParser {
  const HashReader& read;
  const Fields& fields;
  std::function<void(const std::string& field, const std::string& why)> salvage = nullptr;

  template <class Call>
  void take(const std::string& field, const Call& call) const {
    try {
      call();
    } catch (const JobsError& error) {
      if (!salvage) throw;
      salvage(field, error.what());
    }
  }
  void operator()(const char* name, std::string& value, size_t limit) const {
    take(name, [&] { value = read.text(name, limit); });
  }
  void operator()(const char* name, int64_t& value) const {
    take(name, [&] { value = read.integer(name, value); });
  }
  void operator()(const char* name, uint64_t& value) const {
    take(name, [&] { value = read.natural(name, value); });
  }
  void operator()(const char* name, double& value) const {
    take(name, [&] { value = read.number(name).value_or(value); });
  }
  void operator()(const char* name, std::optional<double>& value) const {
    take(name, [&] { value = read.number(name); });
  }
  void operator()(const char* name, bool& value) const {
    take(name, [&] { value = read.flag(name); });
  }
  void operator()(const char* name, bool& maximize, Goal) const {
    const auto found = fields.find(name);
    if (found == fields.end() || found->second.empty()) return;
    take(name, [&] { maximize = read.word(name, maximizes); });
  }
  void operator()(const char* name, JobKind& value) const {
    take(name, [&] { value = read.word(name, parse_job_kind); });
  }
  void operator()(const char* name, JobState& value) const {
    take(name, [&] { value = read.word(name, parse_job_state); });
  }
  template <class Value>
  void operator()(const char* name, Value& value, size_t limit) const {
    take(name, [&] { value = read.json<Value>(name, limit); });
  }
};

void parse(JobRecord& record, const FieldParser& parser) {
  visit_submitted(record.spec, parser);
  visit_progress(record, parser);
}

/// Sets the members that are written only where they differ from others.
void complete(JobRecord& record) {
  if (record.updated_ms == 0)
    record.updated_ms = record.finished_ms != 0 ? record.finished_ms : std::max(record.claimed_ms, record.submitted_ms);
  if (record.state != JobState::succeeded) return;
  if (!record.best_objective) record.best_objective = record.objective;
  if (record.attempt == 0) record.attempt = 1;
  if (record.total_steps == 0) record.total_steps = record.step;
}

}  // namespace

std::vector<std::string> spec_fields(const JobSpec& spec) {
  FieldWriter writer;
  visit_submitted(spec, writer);
  // A field that is missing means the same as one with its usual value, and each takes seventy bytes of every job.
  static const std::map<std::string, std::string> kUsual = {{"name", ""},      {"sweep", ""},         {"trial", "-1"},
                                                            {"deferred", ""},  {"after", "[]"},       {"gpus", "0"},
                                                            {"priority", "0"}, {"most_ranks", "0"},   {"ranks", "1"},
                                                            {"cpus", "1"},     {"max_attempts", "3"}, {"program", ""}};
  std::vector<std::string> fields;
  for (size_t i = 0; i + 1 < writer.list.size(); i += 2) {
    const auto usual = kUsual.find(writer.list[i]);
    if (usual != kUsual.end() && usual->second == writer.list[i + 1]) continue;
    fields.insert(fields.end(), {writer.list[i], writer.list[i + 1]});
  }
  return fields;
}

std::vector<std::string> sweep_fields(const SweepSpec& sweep) {
  FieldWriter writer;
  visit_sweep(sweep, writer);
  return writer.list;
}

Fields fields_of(const redisReply& reply) {
  const auto texts = texts_of(reply);
  Fields fields;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) fields[texts[i]] = texts[i + 1];
  return fields;
}

Fields packed_fields(const std::string& packed) {
  size_t at = 0;
  const auto take = [&](size_t bytes) -> std::string_view {
    if (packed.size() - at < bytes)
      throw RedisUnavailable("Redis: a packed answer of {} bytes ends too early; is this really Redis?", packed.size());
    at += bytes;
    return std::string_view(packed).substr(at - bytes, bytes);
  };
  const auto number = [&](size_t bytes) {
    size_t value = 0;
    for (const char c : take(bytes)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  };
  // What a byte says by itself, or how many bytes follow with it.
  const auto size = [&](size_t small, size_t most, std::initializer_list<std::pair<size_t, size_t>> longer) {
    const auto head = number(1);
    if (head >= small && head <= small + most) return head - small;
    for (const auto& [code, bytes] : longer)
      if (head == code) return number(bytes);
    throw RedisUnavailable("Redis: a packed answer with byte {:#x}; is this really Redis?", head);
  };
  Fields fields;
  for (auto left = size(0x90, 15, {{0xdc, 2}, {0xdd, 4}}); left > 1; left -= 2) {
    const auto text = [&] { return take(size(0xa0, 31, {{0xd9, 1}, {0xda, 2}, {0xdb, 4}})); };
    const auto name = text();
    fields[std::string(name)] = text();
  }
  return fields;
}

JobRecord record_of(const std::string& id, const Fields& fields, const std::string& key) {
  const auto who = key.empty() ? "job " + id : key;
  const auto all = unpacked(fields, who);
  JobRecord record;
  record.spec.id = id;
  const HashReader read(who, all);
  parse(record, {read, all});
  complete(record);
  return record;
}

JobRecord salvaged_record(const std::string& id, const Fields& fields, const std::string& key) {
  JobRecord record;
  record.spec.id = id;
  auto all = fields;
  const HashReader read(key, all);
  const FieldParser parser{read, all, [&](const std::string&, const std::string& why) {
                             if (record.unreadable.empty()) record.unreadable = why;
                           }};
  parser.take("spec", [&] { all = unpacked(fields, key); });
  parse(record, parser);
  complete(record);
  return record;
}

SweepSpec sweep_of(const std::string& id, const Fields& fields, const std::string& key) {
  const HashReader read(key, fields);
  SweepSpec spec;
  spec.id = id;
  visit_sweep(spec, FieldParser{read, fields});
  return spec;
}

SweepSpec salvaged_sweep(const std::string& id, const Fields& fields, const std::string& key,
                         std::map<std::string, std::string>& damage) {
  const HashReader read(key, fields);
  SweepSpec spec;
  spec.id = id;
  const FieldParser parser{read, fields,
                           [&](const std::string& field, const std::string& why) { damage[field] = why; }};
  visit_sweep(spec, parser);
  return spec;
}

}  // namespace foretime::jobs
