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

/// Jobs and sweeps as the hashes of docs/reference/jobs.md.
namespace foretime::jobs {

/// The fields of one Redis hash, each read with its limit. A field that is missing or empty gives the default; one that
/// is malformed or too large throws DamagedRecord naming `who`, the field, what was found and what was expected.
class HashReader {
 public:
  using Fields = std::map<std::string, std::string>;
  /// `fields` must outlive the reader.
  HashReader(std::string who, const Fields& fields) : who_(std::move(who)), fields_(fields) {}
  const std::string& who() const { return who_; }

  /// Returns a field of at most `limit` bytes.
  std::string text(const std::string& field, size_t limit) const;
  int64_t integer(const std::string& field, int64_t missing = 0) const;
  uint64_t natural(const std::string& field, uint64_t missing = 0) const;
  /// Returns a time since 1970, in milliseconds or seconds; far from the limits of its type, so that times can be
  /// subtracted.
  int64_t time(const std::string& field) const;
  std::optional<double> number(const std::string& field) const;
  bool flag(const std::string& field) const { return text(field, kNumber) == "1"; }
  /// Returns one of several words, as `parse` takes it, which throws JobsError for any other.
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

  [[noreturn]] void damaged(const std::string& field, const std::string& found, const std::string& expected) const;

 private:
  static constexpr size_t kNumber = 40;
  /// Returns the beginning of `value`, fit for a terminal.
  static std::string quoted(const std::string& value);

  std::string who_;
  const Fields& fields_;
};

using Fields = std::map<std::string, std::string>;

/// Marks a bool that is written as maximize or minimize.
struct Goal {};

/// The fields of a job's hash that are submitted: calls `field` with the name, the member, and its limit in bytes where
/// it is text or JSON. `Spec` is JobSpec or const JobSpec.
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

/// Calls `field` with all other fields of a job's hash that programs read. What scripts keep for themselves is in
/// docs/reference/jobs.md.
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

/// Calls `field` with the fields of a sweep's hash that are submitted.
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

/// Returns field, value, field, value… of what is submitted, each by itself, without fields that have their usual
/// value.
std::vector<std::string> spec_fields(const JobSpec& spec);
std::vector<std::string> sweep_fields(const SweepSpec& sweep);

/// Returns the fields in an answer to HGETALL. Throws RedisUnavailable where it is something else.
Fields fields_of(const redisReply& reply);
/// Returns the names and values that a script packed as MessagePack (cmsgpack.pack): one string in place of an answer
/// for each. Throws RedisUnavailable where it is something else.
Fields packed_fields(const std::string& packed);
/// Returns the record of a job. Fields that are missing or empty keep the default of the struct, but `kind` and
/// `state`, which must be there. Throws DamagedRecord naming job and field where a value is malformed or above its
/// limit; the message has `key`, if given, in place of the job.
JobRecord record_of(const std::string& id, const Fields& fields, const std::string& key = "");
/// Returns what can be read of a damaged record. Whatever cannot keeps its default, and `unreadable` says what is wrong
/// first.
JobRecord salvaged_record(const std::string& id, const Fields& fields, const std::string& key);
SweepSpec sweep_of(const std::string& id, const Fields& fields, const std::string& key);
/// Returns what can be read of a damaged sweep. Fields that cannot be read keep their default and go into `damage`,
/// with what is wrong.
SweepSpec salvaged_sweep(const std::string& id, const Fields& fields, const std::string& key,
                         std::map<std::string, std::string>& damage);

}  // namespace foretime::jobs
