#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/queue/job_hash.h"

/// What many fields of a job's hash say in one (docs/reference/jobs.md, "Fields of a job"): `spec`, JSON of what was
/// submitted and never changes, and `lease`, of the newest claim. A field of its own rules over what these say, and
/// records of earlier programs have nothing else.
namespace foretime::jobs {

/// Field, value, field, value… of the hash of a job that is submitted with a record of this format.
std::vector<std::string> submitted_fields(const JobSpec& spec, int64_t format = kRecordFormat);

/// Returns the end of the key {prefix}:waiting:… where jobs of this demand, program and format wait:
/// cCgGpPROGRAMvFORMAT.
std::string waiting_shape(const JobSpec& spec, int64_t format = kRecordFormat);
struct WaitingShape {
  Demand demand{};
  int64_t format = 1;
};
/// Reads what waiting_shape writes; empty where the text is none.
std::optional<WaitingShape> parse_waiting_shape(const std::string& shape);

/// All fields by name. Throws DamagedRecord naming `who` where the packed ones are damaged.
Fields unpacked(const Fields& fields, const std::string& who);

/// The field that holds this one where it is none of its own: spec, lease or nothing.
std::string_view packed_in(std::string_view field);

/// The transitions that one entry of the stream of events tells, oldest first, each with the fields of
/// docs/reference/jobs.md: a submission may name more jobs, and a success the claim that came with it.
std::vector<Fields> transitions_of(Fields entry);

}  // namespace foretime::jobs
