#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "jobs/agent/file_work.h"

namespace foretime::jobs {

/// Keeps the output of a running job: in a file up to a limit, and as lines for Redis, at most Limits::kLogLines
/// between two reports.
class JobLog {
 public:
  static constexpr size_t kFileBytes = 64 << 20;
  static constexpr size_t kTailLines = 15;

  static constexpr size_t kUnwrittenBytes = 4 << 20;  // limit of output held while storage is slow

  /// Writes to `file` by way of `work`, so that hanging storage stops no other job.
  JobLog(std::shared_ptr<OutputFile> file, FileWork& work, size_t file_limit = kFileBytes);
  /// Adds output of the command.
  void feed(std::string_view output);
  /// Adds a line from the agent, marked as such.
  void note(const std::string& text);
  /// Ends the output: an unfinished last line becomes a line.
  void finish();

  /// Checks the outcome of the last write, and starts writing the output that has arrived since.
  void write_more();
  /// Returns whether nothing is left to be written to the file.
  bool is_written() const { return !file_ || (unwritten_.empty() && !writing_.valid()); }
  bool has_lines() const { return !pending_.empty(); }
  /// Returns the lines since the last call, oldest first.
  std::vector<std::string> take_lines();
  /// Returns the last kTailLines lines, for an error's text.
  std::string tail() const;
  int64_t lines() const { return job_lines_; }  // all lines of the job so far, without the agent's

 private:
  void add(std::string line);
  /// Queues text to be written to the file.
  void write(std::string_view text);
  /// Stops writing the file after an error, and adds a line that says so; the job continues.
  void give_up(const std::string& why);

  LineSplitter splitter_;
  std::shared_ptr<OutputFile> file_;  // null: writing was stopped
  FileWork& work_;
  std::string unwritten_;
  std::future<void> writing_;
  size_t file_left_;
  std::deque<std::string> pending_, tail_;
  int64_t skipped_lines_ = 0, job_lines_ = 0;
};

}  // namespace foretime::jobs
