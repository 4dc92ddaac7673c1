#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "jobs/agent/allowed_roots.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {

/// The end of an attempt: what its agent knows when the command has ended, and what the attempt's files add to it. It
/// owns all that it uses, so that the files can be read on another thread, where storage may hang.
struct AttemptEnd {
  Lease lease{};
  std::filesystem::path folder{}, resumed{};  // resumed: the checkpoint that it continued from; may be empty
  AllowedRoots roots{};
  std::string printed{};            // stdout of an evaluation
  std::string unseen_checkpoint{};  // the newest that the job named: the storage failed when it was looked at
  bool has_result = false, has_messages = false;
  bool runs_own_program = false;  // a command of the sweep in place of foretime (jobs/sweep/program_trial.h)
  std::string complaint{};        // about the first message that was of no use; may be empty

  JobResult result{};  // the outcome as the exit code says, until the files are read
  std::map<std::string, double> metrics{};
  int64_t step = 0;
  std::string checkpoint{};          // newest, relative to the run root
  std::vector<std::string> notes{};  // for the job's log
  bool lacks_result = false;         // the error is about the result; the end of the log explains it

  /// Reads the attempt's files: metrics, checkpoint or bundle. There is no success without a result: what did not come
  /// over the channel is read where the job has left it, and what is nowhere makes an error of the success. A file that
  /// must not be read (base/foreign_file.h) makes the attempt fail, and storage that fails gives it back.
  void read_files();
  /// Ends it as given back, because the storage failed. A job that writes too much for any disk ends by the bound of
  /// preemptions.
  void give_back_by_storage();
  /// Ends a success as an error, that of a sweep's own program as failed: it would do the same again.
  void lack(const std::string& what);

 private:
  bool is_well() const { return result.outcome == Outcome::succeeded || result.outcome == Outcome::stopped; }
  void read_printed_metrics();
  void require_result();
  void require_training_result();
  /// Returns what a program that reports no result has to add, after a semicolon; empty for foretime itself.
  std::string how_to_report_results() const;
  /// The checkpoint that is the attempt's result, where none was published: one of its own, or a copy of that which it
  /// continued from; kNoCheckpoint where there is none any more. Throws FileError.
  std::string unpublished_checkpoint();
};

}  // namespace foretime::jobs
