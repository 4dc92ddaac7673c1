#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "jobs/queue/queue_reader.h"

/// Formats jobs and sweeps for people and programs. All texts come from other machines: control sequences for terminals
/// are removed.
namespace foretime::cli {

/// Returns `text` on one line of at most `width` characters (0: unlimited). Ends of lines become spaces, control
/// characters except tabs are left out, and a longer text is cut and ends in ….
std::string one_line(const std::string& text, size_t width);

/// Returns `text` line by line without control characters except tabs, with `between` in place of the ends of lines.
std::string printable_lines(const std::string& text, const std::string& between = "\n");

/// Returns the word for a job's state: "unreadable" for a damaged record, "stopped" for a success that was ended by
/// early stopping, "lost" for an expired lease, "cancelling" for an active job that was asked to end, else the state's
/// name.
std::string state_text(const jobs::JobRecord& job);
/// Returns a bar such as [######......]  50 %; - if the number of steps is unknown.
std::string progress_text(const jobs::JobRecord& job);
/// Returns a number such as 0.8123; - if there is none.
std::string number_text(const std::optional<double>& value);
/// Returns the value of a swept parameter for people: a number that is not an integer with four significant digits,
/// like number_text, and any other text shortened to `width` characters. --json and --csv have the exact value.
std::string parameter_text(const std::string& value, size_t width);
/// Returns a duration such as 3 s, 4 min, 2.5 h or 3 days.
std::string age_text(int64_t milliseconds);

/// Returns the table of `foretime status`, in `width` columns if possible: the least important columns are shortened or
/// dropped. 0: unlimited.
std::string job_table(const std::vector<jobs::JobRecord>& jobs, size_t width = 0);
/// Returns the settings of a job (jobs::resolved_settings). If they cannot be resolved, because the record or its sweep
/// is damaged, returns the stored text below a comment that says why.
std::string settings_text(const jobs::JobRecord& job);
/// Returns the damaged fields of a sweep with the fault of each, on one line; empty for an intact record.
std::string damage_text(const jobs::SweepRecord& sweep);
/// Returns all facts about one job.
std::string describe(const jobs::JobRecord& job, const jobs::JobArtifacts& artifacts);
std::string describe(const jobs::SweepRecord& sweep);

nlohmann::json to_json(const jobs::JobRecord& job);
nlohmann::json to_json(const jobs::JobArtifacts& artifacts);
nlohmann::json to_json(const jobs::SweepRecord& sweep);
nlohmann::json to_json(const jobs::QueueStatistics& statistics);

/// Returns whether an agent sent a heartbeat within two minutes; a living agent sends one every half minute.
bool is_heard(const jobs::AgentRecord& agent, const jobs::QueueStatistics& statistics);

/// Returns a line about waiting jobs of user programs if no living agent runs such jobs; otherwise empty.
std::string programs_notice(const jobs::QueueStatistics& statistics);

/// Returns a text such as "3 active, 12 waiting, 40 succeeded".
std::string counts_text(const std::map<jobs::JobState, int64_t>& counts);

}  // namespace foretime::cli
