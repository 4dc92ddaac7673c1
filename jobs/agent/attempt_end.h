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
  std::filesystem::path folder{}, resumed_from{};  // resumed: checkpoint that the attempt continued from; may be empty
  AllowedRoots roots{};
  std::string evaluation_stdout{};      // stdout of an evaluation
  std::string unreadable_checkpoint{};  // newest checkpoint that the job named and that failed storage could not read
  bool has_result = false, has_messages = false;
  bool runs_own_program = false;        // a command of the sweep in place of foretime (jobs/sweep/program_trial.h)
  std::string first_useless_message{};  // first useless message of the job; may be empty

  JobResult result{};  // outcome according to the exit code, until read_files()
  std::map<std::string, double> metrics{};
  int64_t step = 0;
  std::string checkpoint{};          // newest checkpoint, relative to the run root
  std::vector<std::string> notes{};  // lines for the job's log
  bool result_missing = false;       // the result is missing; the end of the log explains why

  /// Reads the attempt's files: metrics, checkpoint or bundle. Results that did not come over the channel are read from
  /// the files of the job; if they are missing there too, a success becomes an error. A file that must not be read
  /// (base/foreign_file.h) makes the attempt fail, and failing storage gives it back.
  void read_files();
  /// Ends the attempt as given back because the storage failed. A job that fills every disk ends at the limit of
  /// preemptions.
  void give_back_by_storage();
  /// Turns a success into an error about the missing `what`. For a sweep's own program it becomes failed, since a retry
  /// would not help.
  void report_missing(const std::string& what);

 private:
  bool is_success() const { return result.outcome == Outcome::succeeded || result.outcome == Outcome::stopped; }
  void read_printed_metrics();
  /// Turns a success without a result into an error.
  void require_result();
  void require_training_result();
  /// Returns a hint for a program that reports no result, to follow a semicolon; empty for foretime itself.
  std::string how_to_report_results() const;
  /// Returns the checkpoint that is the attempt's result if none was published: its newest one, or a copy of the
  /// checkpoint that it continued from; kNoCheckpoint if neither exists. Throws FileError.
  std::string unpublished_checkpoint();
};

}  // namespace foretime::jobs
