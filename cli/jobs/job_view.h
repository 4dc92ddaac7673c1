#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "jobs/queue/queue_reader.h"

/// Jobs and sweeps as people and programs read them. Everything comes from other machines: what a terminal could take
/// for a command is left out.
namespace foretime::cli {

/// `text` on one line, without control characters, at most `width` characters with … at the end.
std::string shown(const std::string& text, size_t width);

/// succeeded, or stopped where early stopping ended it.
std::string state_text(const jobs::JobRecord& job);
/// [####....]  50 %
std::string progress_text(const jobs::JobRecord& job);
/// 0.8123; - where there is none.
std::string number_text(const std::optional<double>& value);
/// The value of a swept parameter for people: a number that is no integer has four significant digits, as in
/// number_text. Anything else is shortened to `width` characters. --json and --csv have the exact value.
std::string parameter_text(const std::string& value, size_t width);
/// 3 s, 4 min, 2.5 h, 3 days.
std::string age_text(int64_t milliseconds);

/// The table of `foretime status`, in `width` columns where it can be: what is least missed is shortened or left out.
/// 0: as wide as it comes.
std::string job_table(const std::vector<jobs::JobRecord>& jobs, size_t width = 0);
/// Returns the settings that a job runs with (jobs::resolved_settings). Where they cannot be resolved, because the
/// record or its sweep is damaged, returns what is stored, below a comment that says why.
std::string settings_text(const jobs::JobRecord& job);
/// Returns which fields of a sweep are damaged, and what is wrong with each, on one line; empty for a whole record.
std::string damage_text(const jobs::SweepRecord& sweep);
/// Everything about one job.
std::string describe(const jobs::JobRecord& job, const jobs::JobArtifacts& artifacts);
std::string describe(const jobs::SweepRecord& sweep);

nlohmann::json to_json(const jobs::JobRecord& job);
nlohmann::json to_json(const jobs::JobArtifacts& artifacts);
nlohmann::json to_json(const jobs::SweepRecord& sweep);
nlohmann::json to_json(const jobs::QueueStatistics& statistics);

/// Whether an agent spoke within two minutes: it does so every half minute while it lives.
bool is_heard(const jobs::AgentRecord& agent, const jobs::QueueStatistics& statistics);

/// A line about waiting jobs that run programs of their own while no agent that is heard runs such; else empty.
std::string programs_notice(const jobs::QueueStatistics& statistics);

/// 3 active, 12 waiting, 40 succeeded
std::string counts_text(const std::map<jobs::JobState, int64_t>& counts);

}  // namespace foretime::cli
