#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/line_source.h"
#include "data/frontends/ansor/records/record.h"

namespace foretime::data {

/// Counts the lines and records that a reader has read.
struct RecordCounts {
  /// Describes a line that is not a record. Only the first ones are kept, so that memory stays bounded.
  struct Malformed {
    int64_t line = 0;  // 1-based
    std::string reason;
  };
  static constexpr size_t kKept = 100;

  int64_t lines = 0;                            // lines of the reader's share
  int64_t skipped = 0;                          // empty lines and lines that start with '#' or a space, like in TVM
  int64_t records = 0;                          // returned by next()
  int64_t malformed = 0;                        // neither skipped nor records
  std::array<int64_t, kRecordErrors> errors{};  // failed measurements by RecordError; `none` has 0
  std::vector<Malformed> first_malformed;

  int64_t failed() const;  // sum of errors
};

/// Selects a part of a file for one of several readers that share it: blocks of lines, in turn. Finding lines is ten
/// times faster than parsing them, so that readers of one compressed file hardly wait for lines of the others.
struct RecordShare {
  static constexpr int64_t kBlock = 128;  // lines
  int64_t part = 0, parts = 1;
  std::shared_ptr<const std::vector<bool>> lines =
      {};  // [lines of the file]; lines beyond its end are not read. Null: all

  /// Returns whether the reader takes a line; `line` is 1-based.
  bool has(int64_t line) const {
    if ((line - 1) / kBlock % parts != part) return false;
    return !lines || (line <= std::ssize(*lines) && (*lines)[line - 1]);
  }
};

/// Returns a set of 0-based lines for RecordShare. Throws DataError `origin: …` for numbers that are not lines.
std::shared_ptr<const std::vector<bool>> line_set(const std::vector<int64_t>& lines, const std::string& origin);

/// Returns a prefix for ids of candidates from several files: each file's name up to its first dot, or its whole path
/// if another file has the same name.
std::vector<std::string> record_file_names(const std::vector<std::filesystem::path>& files);

/// Returns the group name of a workload key: without quotes, blanks and backslashes, and with _ for /.
std::string group_name(const std::string& workload_key);

/// Parses records one by one; reuses its memory. Make one object for each thread.
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();

  /// Overwrites `record`, whose line becomes 0. Without `measured`, ignores the result, "r", and the record has no
  /// costs. `padded` says that LineSource::kPadding bytes behind the text may be read. Throws DataError with the reason
  /// if the text is not a record.
  void parse(std::string_view text, TuningRecord& record, bool measured = true, bool padded = false);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// Reads the records of TVM's auto_scheduler logs (JSON lines, plain or gzip; v0.5 and v0.6, TenSet's keys too) one at
/// a time: memory does not grow with the file. Counts and skips failed measurements and lines that are not records.
class RecordReader {
 public:
  /// Opens a log. Throws DataError if the file cannot be read.
  explicit RecordReader(const std::filesystem::path& file, RecordShare share = {});

  /// Overwrites `record`, reusing its memory, with the next successful one; returns false at the end. Throws DataError
  /// for damaged gzip data.
  bool next(TuningRecord& record);
  /// Reads the next record like next(), including failed measurements, which count as records and as errors.
  bool next_with_failed(TuningRecord& record);
  const RecordCounts& counts() const { return counts_; }
  /// Returns the 1-based number of the last line read; at the end, the number of lines in the file.
  int64_t line_number() const { return lines_.line_number(); }

 private:
  bool read(TuningRecord& record, bool with_failed);

  LineSource lines_;
  RecordShare share_;
  RecordParser parser_;
  RecordCounts counts_;
};

}  // namespace foretime::data
