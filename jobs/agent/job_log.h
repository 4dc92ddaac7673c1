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

/// Keeps a job's output in a file up to a limit, and as lines for Redis, at most Limits::kLogLines between two reports.
class JobLog {
 public:
  static constexpr size_t kFileBytes = 64 << 20;      // default limit of the command's output in the file
  static constexpr size_t kTailLines = 15;            // lines of tail()
  static constexpr size_t kUnwrittenBytes = 4 << 20;  // limit of output held in memory while the storage is slow

  /// Writes to `file` on the thread of `work`. `file_limit` is the most bytes of the command's output in the file.
  JobLog(std::shared_ptr<OutputFile> file, FileWork& work, size_t file_limit = kFileBytes);
  void feed(std::string_view output);  // adds output of the command
  void note(const std::string& text);  // adds a line of the agent, which begins with [agent]
  /// Ends the output: an unfinished last line becomes a line.
  void finish();

  /// Starts writing the output that has arrived since the last write, unless that still runs. After a failed write, or
  /// if more than kUnwrittenBytes wait, nothing more is written to the file.
  void write_more();
  /// Returns whether nothing is left to be written to the file.
  bool is_written() const { return !file_ || (unwritten_.empty() && !writing_.valid()); }
  bool has_lines() const { return !pending_.empty(); }  // whether take_lines() has lines to return
  /// Returns the lines since the last call, oldest first. If there were too many, the first line says how many were
  /// left out.
  std::vector<std::string> take_lines();
  /// Returns the last kTailLines lines, each after a line end, for an error; the end of them if that exceeds
  /// Limits::kError.
  std::string tail() const;
  int64_t lines() const { return job_lines_; }  // number of lines of the command so far

 private:
  void add(std::string line);         // adds a line to pending_ and tail_, cut to Limits::kLogLine bytes
  void write(std::string_view text);  // queues text to be written to the file
  /// Stops writing the file after an error, and adds a line that says so; the job continues.
  void give_up(const std::string& why);

  LineSplitter splitter_;
  std::shared_ptr<OutputFile> file_;  // null: writing was stopped
  FileWork& work_;
  std::string unwritten_;                      // text for the file that no write has taken yet
  std::future<void> writing_;                  // the running write
  size_t file_left_;                           // bytes of output that the file may still take
  std::deque<std::string> pending_, tail_;     // lines for take_lines() and tail()
  int64_t skipped_lines_ = 0, job_lines_ = 0;  // lines that pending_ had no room for; lines of the command
};

}  // namespace foretime::jobs
