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
/// is malformed or too large throws JobsError naming `who`, the field, what was found and what was expected.
class HashReader {
 public:
  using Fields = std::map<std::string, std::string>;
  /// `fields` must outlive the reader.
  HashReader(std::string who, const Fields& fields) : who_(std::move(who)), fields_(fields) {}

  /// `limit` in bytes.
  std::string text(const std::string& field, size_t limit) const;
  int64_t integer(const std::string& field, int64_t missing = 0) const;
  uint64_t natural(const std::string& field, uint64_t missing = 0) const;
  std::optional<double> number(const std::string& field) const;
  bool flag(const std::string& field) const { return text(field, kNumber) == "1"; }
  /// One of several words, as `parse` takes it, which throws JobsError for any other.
  template <class Parse>
  auto word(const std::string& field, const Parse& parse) const {
    const auto value = text(field, Limits::kName);
    try {
      return parse(value);
    } catch (const JobsError& error) {
      throw JobsError("{}: field {}: {}; was it written by another program?", who_, field,
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
  /// The beginning of `value`, fit for a terminal.
  static std::string quoted(const std::string& value);

  std::string who_;
  const Fields& fields_;
};

using Fields = std::map<std::string, std::string>;

/// Field, value, field, value… of what is submitted.
std::vector<std::string> spec_fields(const JobSpec& spec);
std::vector<std::string> sweep_fields(const SweepSpec& sweep);

/// The answer to HGETALL. Throws RedisUnavailable where it is something else.
Fields fields_of(const redisReply& reply);
/// Fields that are missing or empty keep the default of the struct. Throws JobsError naming job and field where a value
/// is malformed or above its limit; `key`, where given, stands for the job there.
JobRecord record_of(const std::string& id, const Fields& fields, const std::string& key = "");

}  // namespace foretime::jobs
