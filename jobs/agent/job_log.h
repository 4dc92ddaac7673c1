#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace foretime::jobs {

/// The output of a job that runs: whole in a file up to a limit, and as lines for Redis, of which between two reports
/// at most Limits::kLogLines are kept.
class JobLog {
 public:
  static constexpr size_t kFileBytes = 64 << 20;
  static constexpr size_t kTailLines = 15;

  explicit JobLog(const std::filesystem::path& file, size_t file_limit = kFileBytes);
  void feed(std::string_view output);
  /// A line of the agent's own, marked as such.
  void note(const std::string& text);
  /// The command has ended: a last line without an end is a line too.
  void finish();

  bool has_lines() const { return !pending_.empty(); }
  /// Lines since the last call, oldest first.
  std::vector<std::string> take_lines();
  /// The last lines, for an error's text.
  std::string tail() const;
  int64_t lines() const { return lines_; }  // ever, the agent's own not counted

 private:
  void add(std::string line);
  /// To the file. A file that cannot be written is given up, with a line that says so: the job goes on.
  void write(std::string_view text);

  LineSplitter splitter_;
  std::unique_ptr<OutputFile> file_;
  size_t file_left_;
  std::deque<std::string> pending_, tail_;
  int64_t left_out_ = 0, lines_ = 0;
};

}  // namespace foretime::jobs
