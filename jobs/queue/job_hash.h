#pragma once

#include <map>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

#include "jobs/queue/queue.h"

/// Jobs and sweeps as the hashes of docs/reference/jobs.md.
namespace foretime::jobs {

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
