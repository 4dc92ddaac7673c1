#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/job.h"
#include "jobs/queue/queue.h"

/// Converts jobs and sweeps to and from the Redis hashes of docs/reference/jobs.md.
namespace foretime::jobs {

/// Reads the fields of one Redis hash. A field that is missing or empty gives the default. A field that is malformed or
/// too large throws DamagedRecord, whose message has `who`, the field, what was found and what was expected.
class HashReader {
 public:
  using Fields = std::map<std::string, std::string>;
  /// `who` names the record in messages. `fields` must outlive the reader.
  HashReader(std::string who, const Fields& fields) : who_(std::move(who)), fields_(fields) {}
  const std::string& who() const { return who_; }

  /// Returns a field of at most `limit` bytes.
  std::string text(const std::string& field, size_t limit) const;
  /// Returns an integer; `missing` if the field is missing or empty.
  int64_t integer(const std::string& field, int64_t missing = 0) const;
  /// Returns an integer of 0 or more; `missing` if the field is missing or empty.
  uint64_t natural(const std::string& field, uint64_t missing = 0) const;
  /// Returns a time since 1970, an integer of at most 9e15 in absolute value; 0 if it is missing.
  int64_t time(const std::string& field) const;
  /// Returns a number, which may be infinite or NaN; empty if the field is missing or empty.
  std::optional<double> number(const std::string& field) const;
  /// Returns whether the field is "1".
  bool flag(const std::string& field) const { return text(field, kNumber) == "1"; }
  /// Returns parse(text of the field), "" if it is missing. A JobsError of `parse` becomes DamagedRecord.
  template <class Parse>
  auto word(const std::string& field, const Parse& parse) const {
    const auto value = text(field, Limits::kName);
    try {
      return parse(value);
    } catch (const JobsError& error) {
      throw DamagedRecord("{}: field {}: {}; was it written by another program?", who_, field,
                          printable_utf8(error.what()));
    }
  }
  /// Returns the value of a JSON field of at most `limit` bytes.
  template <class Value>
  Value json(const std::string& field, size_t limit) const {
    const auto value = text(field, limit);
    if (value.empty()) return Value();
    try {
      return nlohmann::json::parse(value).get<Value>();
    } catch (const nlohmann::json::exception&) {
      damaged(field, quoted(value), "JSON as in docs/reference/jobs.md");
    }
  }

  /// Throws DamagedRecord: "WHO: field FIELD: FOUND, expected EXPECTED; was it written by another program?"
  [[noreturn]] void damaged(const std::string& field, const std::string& found, const std::string& expected) const;

 private:
  static constexpr size_t kNumber = 40;  // most bytes of a number
  /// Returns the first 40 bytes of `value` in quotes, made printable.
  static std::string quoted(const std::string& value);

  std::string who_;
  const Fields& fields_;
};

using Fields = std::map<std::string, std::string>;

/// Marks a bool that is written as maximize or minimize.
struct Goal {};

/// Calls `field` for each field of a job's hash that is submitted, with the name, the member of `spec`, and for text
/// and JSON the limit in bytes. `Spec` is JobSpec or const JobSpec.
template <class Spec, class Field>
void visit_submitted(Spec& spec, Field&& field) {
  field("kind", spec.kind);
  field("name", spec.name, Limits::kName);
  field("sweep", spec.sweep, Limits::kName);
  field("trial", spec.trial);
  field("settings", spec.settings, Limits::kSettings);
  field("parameters", spec.parameters, Limits::kParameters);
  field("deferred", spec.deferred);
  field("metric", spec.metric, Limits::kName);
  field("goal", spec.maximize, Goal{});
  field("after", spec.after, Limits::kParameters);
  field("ranks", spec.resources.ranks);
  field("most_ranks", spec.resources.most_ranks);
  field("cpus", spec.resources.cpus);
  field("gpus", spec.resources.gpus);
  field("priority", spec.priority);
  field("max_attempts", spec.max_attempts);
  field("program", spec.program, Limits::kName);
}

/// Calls `field` as visit_submitted() does for all other fields of a job's hash that programs read.
/// docs/reference/jobs.md lists those that only the scripts use.
template <class Record, class Field>
void visit_progress(Record& record, Field&& field) {
  field("state", record.state);
  field("attempt", record.attempt);
  field("attempt_ranks", record.attempt_ranks);
  field("failures", record.failures);
  field("lost", record.lost);
  field("preemptions", record.preemptions);
  field("fence", record.fence);
  field("agent", record.agent, Limits::kName);
  field("failed_on", record.failed_on, Limits::kName);
  field("submitted_ms", record.submitted_ms);
  field("claimed_ms", record.claimed_ms);
  field("finished_ms", record.finished_ms);
  field("due_ms", record.due_ms);
  field("updated_ms", record.updated_ms);
  field("step", record.step);
  field("total_steps", record.total_steps);
  field("eta_s", record.eta_seconds);
  field("loss", record.loss);
  field("seconds", record.seconds);
  field("objective", record.objective);
  field("best_objective", record.best_objective);
  field("metrics", record.metrics, 2 * Limits::kResult);
  field("checkpoint", record.checkpoint, Limits::kResult);
  field("error", record.error, Limits::kError);
  field("reason", record.reason, Limits::kError);
  field("stopped", record.stopped);
  field("cancel", record.cancel_requested);
  field("log_lines", record.log_lines);
  field("results", record.results);
  field("history", record.history, Limits::kHistory);
}

/// Calls `field` as visit_submitted() does for the fields of a sweep's hash that are submitted.
template <class Spec, class Field>
void visit_sweep(Spec& spec, Field&& field) {
  field("name", spec.name, Limits::kName);
  field("method", spec.method, Limits::kName);
  field("definition", spec.definition, Limits::kSettings);
  field("settings", spec.settings, Limits::kSettings);
  field("metric", spec.metric, Limits::kName);
  field("goal", spec.maximize, Goal{});
  field("trials", spec.trials);
  field("seed", spec.seed);
  field("rungs", spec.halving.rungs, Limits::kParameters);
  field("eta", spec.halving.eta);
}

/// Returns the submitted fields of a job as name, value, name, value…, without fields that have their default value.
std::vector<std::string> spec_fields(const JobSpec& spec);
/// Returns all submitted fields of a sweep as name, value, name, value….
std::vector<std::string> sweep_fields(const SweepSpec& sweep);

/// Returns the fields in an answer to HGETALL. Throws RedisUnavailable if the reply is not an array of texts or nil.
Fields fields_of(const redisReply& reply);
/// Returns the fields in a MessagePack array NAME, VALUE, NAME, VALUE…. Throws RedisUnavailable for other bytes.
Fields packed_fields(const std::string& packed);
/// Returns the record of a job from the fields of its hash, packed or not. Fields that are missing or empty keep the
/// default of the struct, but `kind` and `state` must be there; updated_ms, and best_objective, attempt and total_steps
/// of a succeeded job, are derived if missing. Throws DamagedRecord if a value is malformed or above its limit; the
/// message begins with `key`, or with "job ID" if `key` is empty.
JobRecord record_of(const std::string& id, const Fields& fields, const std::string& key = "");
/// Returns the record of a job that may be damaged: unreadable fields keep their default, and `unreadable` describes
/// the first one.
JobRecord salvaged_record(const std::string& id, const Fields& fields, const std::string& key);
/// Returns the sweep in the fields of its hash. Throws DamagedRecord, whose message begins with `key`.
SweepSpec sweep_of(const std::string& id, const Fields& fields, const std::string& key);
/// Returns a sweep that may be damaged: unreadable fields keep their default, and `damage` gets a message for each.
SweepSpec salvaged_sweep(const std::string& id, const Fields& fields, const std::string& key,
                         std::map<std::string, std::string>& damage);

}  // namespace foretime::jobs
