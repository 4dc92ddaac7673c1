#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/no_copy.h"
#include "jobs/queue/queue_reader.h"

/// Texts and JSON of jobs and sweeps. Control characters, which could change a terminal, are removed from all texts.
namespace foretime::cli {

/// Returns `text` on one line of at most `width` characters (0: unlimited). Ends of lines become spaces, control
/// characters except tabs are left out, and a longer text is cut and ends in ….
std::string one_line(const std::string& text, size_t width);

/// Returns `text` with `between` in place of each line end, and without control characters except tabs.
std::string printable_lines(const std::string& text, const std::string& between = "\n");

/// Returns a job's state, the first that holds of "unreadable" (damaged record), "stopped" (a success that early
/// stopping has ended), "lost" (expired lease), "cancelling" (active and asked to end), and the name of the state.
std::string state_text(const jobs::JobRecord& job);
/// Returns a bar such as [######......]  50 %; "-" if the number of steps is unknown.
std::string progress_text(const jobs::JobRecord& job);
/// Returns a number with four significant digits, such as 0.8123; "-" for an empty one.
std::string number_text(const std::optional<double>& value);
/// Returns the value of a swept parameter for people: a number that is not an integer by number_text, any other text by
/// one_line(value, width). --json and --csv have the exact value.
std::string parameter_text(const std::string& value, size_t width);
/// Returns a duration such as 3 s, 4 min, 2.5 h or 3 days; negative ones are 0 s.
std::string age_text(int64_t milliseconds);

/// Returns the table of `foretime status`. If it is wider than `width` columns, the least important columns are
/// shortened or left out as far as necessary; 0: no limit.
std::string job_table(const std::vector<jobs::JobRecord>& jobs, size_t width = 0);
/// Returns the settings of a job (jobs::resolved_settings); if damage prevents that, the stored text below a comment.
std::string settings_text(const jobs::JobRecord& job);
/// Returns the faults of the damaged fields of a sweep on one line; "" for an intact record.
std::string damage_text(const jobs::SweepRecord& sweep);
/// Returns all known facts about a job, a line for each.
std::string describe(const jobs::JobRecord& job, const jobs::JobArtifacts& artifacts);
/// Returns all known facts about a sweep, a line for each.
std::string describe(const jobs::SweepRecord& sweep);

/// Returns a job in the form of `--json`, as the other to_json() do; unknown values are null.
nlohmann::json to_json(const jobs::JobRecord& job);
nlohmann::json to_json(const jobs::JobArtifacts& artifacts);      // {"trouble", and for each role its artifact}
nlohmann::json to_json(const jobs::SweepRecord& sweep);           // also its numbers of jobs by state
nlohmann::json to_json(const jobs::QueueStatistics& statistics);  // also all agents

/// Prints {NAME: [ELEMENT, …], …} element by element, so that no long list is held in memory. Prints nothing before the
/// first element or the end.
class JsonListPrinter : NoCopy {
 public:
  /// `compact`: on one line; otherwise indented.
  explicit JsonListPrinter(const std::string& name, bool compact = false);
  /// Ends the line of a document that an exception cut short.
  ~JsonListPrinter();
  void add(const nlohmann::json& element);  // prints one element of the list
  /// Prints the end of the list and the members of `rest`, of which there must be one or more.
  void end(const nlohmann::json& rest);

 private:
  std::string separator_;  // text before the next element
  bool compact_, any_ = false, ended_ = false;
};

/// Returns whether an agent sent a heartbeat within two minutes. A living agent sends one every half minute.
bool is_heard(const jobs::AgentRecord& agent, const jobs::QueueStatistics& statistics);

/// Returns a line about waiting jobs of user programs if no agent that was heard runs programs; otherwise "".
std::string programs_notice(const jobs::QueueStatistics& statistics);

/// Returns a text such as "3 active, 12 waiting, 40 succeeded"; "no jobs" if all counts are 0.
std::string counts_text(const std::map<jobs::JobState, int64_t>& counts);

}  // namespace foretime::cli
