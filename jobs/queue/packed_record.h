#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/queue/job_hash.h"

/// Packs many fields of a job's hash into two (docs/reference/jobs.md, "Fields of a job"): `spec`, JSON of the
/// submitted fields, and `lease`, the fields of the newest claim. A separate field that is not empty wins.
namespace foretime::jobs {

/// Returns the hash of a newly submitted job as name, value, name, value…, with the field `spec`.
std::vector<std::string> submitted_fields(const JobSpec& spec);

/// Returns the end of the key {prefix}:waiting:… of the jobs with the same Demand as this one: cCgG, or cCgGpPROGRAM if
/// the job has a program. C and G are the CPUs and GPUs of all ranks (the least number of ranks of an elastic job).
std::string waiting_shape(const JobSpec& spec);
/// Parses the text of waiting_shape(); empty for any other text.
std::optional<Demand> parse_waiting_shape(const std::string& shape);

/// Returns `fields` and those that are packed in `spec` and `lease`. Throws DamagedRecord, whose message begins with
/// `who`, if a packed field is damaged.
Fields unpacked(const Fields& fields, const std::string& who);

/// Returns the name of the packed field that may hold `field`: "spec", "lease" or "".
std::string_view packed_in(std::string_view field);

/// Returns the transitions in one entry of the stream of events, oldest first: one for each job in the fields `job` and
/// `more`. Several jobs may be submitted in one entry.
std::vector<Fields> transitions_of(Fields entry);

}  // namespace foretime::jobs
