#pragma once

#include "jobs/queue/queue.h"

/// Bounds of what goes into Redis (Limits in jobs/queue/job.h). What people submit is refused when it is too large.
/// What agents report is cut, because a result must never be lost over a long error message.
namespace foretime::jobs {

/// Throws SweepError naming job, field, what was found and what was expected.
void check(const JobSpec& job);
void check(const SweepSpec& sweep);
/// Throws JobsError.
void check(const ClaimRequest& request);
void check(const AgentInfo& agent);

/// Leaves out metrics that are not finite, cuts long lines and errors, and keeps the last of too many lines. Throws
/// JobsError: metrics or checkpoint path above their limits.
JobReport bounded(JobReport report);
JobResult bounded(JobResult result);

/// Whether it can be the id of a job or a sweep: 1 to 64 letters, digits, - and _.
bool is_id(const std::string& text);
/// A number as it stands in Redis: the shortest text that reads back as the same double.
std::string number_text(double value);
/// min(cap, base 2^(failures-1)) (0.5 + jitter / 2), whole milliseconds.
int64_t backoff_ms(const QueueSettings& settings, int64_t failures, double jitter);

}  // namespace foretime::jobs
