#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/agent/allowed_roots.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {

/// Describes the end of an attempt: the facts that the agent knows when the command has ended, and the results read
/// from the attempt's files. Owns all its data, so that another thread can read the files while storage may hang.
struct AttemptEnd {
  Lease lease{};
  std::filesystem::path folder{};        // folder of the attempt
  std::filesystem::path resumed_from{};  // checkpoint that the attempt continued from; empty: none
  AllowedRoots roots{};
  std::string evaluation_stdout{};                // stdout of an evaluation job
  std::string unreadable_checkpoint{};            // newest checkpoint of the job, if failed storage could not read it
  bool has_result = false, has_messages = false;  // true if a result, or any message, came over the channel
  bool runs_own_program = false;        // a command of the sweep in place of foretime (jobs/sweep/program_trial.h)
  std::string first_useless_message{};  // text about the first invalid message of the job; may be empty

  JobResult result{};                       // outcome according to the exit code, until read_files()
  std::map<std::string, double> metrics{};  // metrics of the last evaluation or the result
  int64_t step = 0;                         // newest step
  std::string checkpoint{};                 // newest checkpoint or product, relative to the run root; empty: none
  std::vector<std::string> notes{};         // lines for the job's log
  bool result_missing = false;              // report_missing() was called; the end of the log may explain why

  /// Reads the attempt's files: metrics, checkpoint or bundle. Results that did not come over the channel are read from
  /// the files of the job; if they are missing there too, a success becomes an error. A file that must not be read
  /// (base/foreign_file.h) makes a success failed, and failing storage makes it preempted. An attempt with exit code 3
  /// whose folder is gone is also preempted.
  void read_files();
  /// Makes the result preempted because the storage failed. Such preemptions have a limit (ended_by_storage).
  void give_back_by_storage();
  /// Turns a success into an error with the text `what` about the missing result; into failed for a sweep's own
  /// program, since a retry would not help.
  void report_missing(const std::string& what);

 private:
  bool is_success() const { return result.outcome == Outcome::succeeded || result.outcome == Outcome::stopped; }
  /// Writes an evaluation's stdout to evaluation.json. Reads the metrics in it unless a message had the result.
  void read_printed_metrics();
  /// Calls report_missing() if the result of a success does not exist; else sets the checkpoint of an export or tuning.
  void require_result();
  void require_training_result();
  /// Returns a hint, with a semicolon before it, for a program that reports no result; empty for foretime.
  std::string how_to_report_results() const;
  /// Returns the checkpoint, relative to the run root, that is the result if the attempt published none: its newest
  /// whole one, or a copy of the one that it continued from. If neither exists, returns kNoCheckpoint if the published
  /// one of an earlier attempt is damaged, else "". Throws FileError.
  std::string unpublished_checkpoint();
};

}  // namespace foretime::jobs
