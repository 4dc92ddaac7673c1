#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/queue/job_hash.h"

/// Packs many fields of a job's hash into two (docs/reference/jobs.md, "Fields of a job"): `spec`, JSON of the
/// submitted fields, which never change, and `lease`, the fields of the newest claim. A separate field overrides a
/// packed one.
namespace foretime::jobs {

/// Returns field, value, field, value… of the hash of a job that is submitted.
std::vector<std::string> submitted_fields(const JobSpec& spec);

/// Returns the end of the key {prefix}:waiting:… where jobs like this one wait: cCgG, or cCgGpPROGRAM if it has a
/// program. C and G are its CPUs and GPUs, over all ranks.
std::string waiting_shape(const JobSpec& spec);
/// Reads what waiting_shape writes; empty where the text is none.
std::optional<Demand> parse_waiting_shape(const std::string& shape);

/// Returns all fields by name. Throws DamagedRecord naming `who` where the packed ones are damaged.
Fields unpacked(const Fields& fields, const std::string& who);

/// Returns the field that holds this one where it is none by itself: spec, lease or nothing.
std::string_view packed_in(std::string_view field);

/// Returns the transitions that one entry of the stream of events describes, oldest first, each with the fields of
/// docs/reference/jobs.md: a submission may name more jobs.
std::vector<Fields> transitions_of(Fields entry);

}  // namespace foretime::jobs
