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

/// The output of a job that runs: whole in a file up to a limit, and as lines for Redis, of which between two reports
/// at most Limits::kLogLines are kept.
class JobLog {
 public:
  static constexpr size_t kFileBytes = 64 << 20;
  static constexpr size_t kTailLines = 15;

  static constexpr size_t kUnwrittenBytes = 4 << 20;  // kept while storage is slow

  /// `work` writes to `file`, so that storage that hangs stops no other job.
  JobLog(std::shared_ptr<OutputFile> file, FileWork& work, size_t file_limit = kFileBytes);
  void feed(std::string_view output);
  /// A line of the agent's own, marked as such.
  void note(const std::string& text);
  /// The command has ended: a last line without an end is a line too.
  void finish();

  /// Takes the outcome of what was written last, and writes what came meanwhile.
  void write_more();
  /// Nothing is left to be written to the file.
  bool is_written() const { return !file_ || (unwritten_.empty() && !writing_.valid()); }
  bool has_lines() const { return !pending_.empty(); }
  /// Lines since the last call, oldest first.
  std::vector<std::string> take_lines();
  /// The last lines, for an error's text.
  std::string tail() const;
  int64_t lines() const { return lines_; }  // ever, the agent's own not counted

 private:
  void add(std::string line);
  /// To the file.
  void write(std::string_view text);
  /// A file that cannot be written is given up, with a line that says so: the job continues.
  void give_up(const std::string& why);

  LineSplitter splitter_;
  std::shared_ptr<OutputFile> file_;  // null: it was given up
  FileWork& work_;
  std::string unwritten_;
  std::future<void> writing_;
  size_t file_left_;
  std::deque<std::string> pending_, tail_;
  int64_t left_out_ = 0, lines_ = 0;
};

}  // namespace foretime::jobs
