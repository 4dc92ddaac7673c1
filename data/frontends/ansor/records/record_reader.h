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
  /// Describes a line that is not a record.
  struct Malformed {
    int64_t line = 0;    // 1-based
    std::string reason;  // message of the error
  };
  static constexpr size_t kKept = 100;  // largest number of entries of first_malformed

  int64_t lines = 0;                            // lines of the reader's share of the file
  int64_t skipped = 0;                          // empty lines and lines that start with '#' or a space, like in TVM
  int64_t records = 0;                          // records that next() and next_with_failed() returned
  int64_t malformed = 0;                        // lines that are not skipped and are not valid records
  std::array<int64_t, kRecordErrors> errors{};  // [RecordError] failed measurements; 0 for `none`
  std::vector<Malformed> first_malformed;       // the first kKept malformed lines

  int64_t failed() const;  // number of failed measurements: sum of `errors`
};

/// Selects the lines of a file that one of several readers takes. Blocks of lines go to the readers in turn; a reader
/// finds the lines of the others too, which is ten times faster than parsing them.
struct RecordShare {
  static constexpr int64_t kBlock = 128;  // lines of a block
  int64_t part = 0, parts = 1;            // number of this reader from 0, and number of readers
  /// Restricts the share to a set of 0-based lines: true for those to be read; further lines are not. Null: all lines.
  std::shared_ptr<const std::vector<bool>> lines = {};

  /// Returns whether the reader takes a line; `line` is 1-based.
  bool has(int64_t line) const {
    if ((line - 1) / kBlock % parts != part) return false;
    return !lines || (line <= std::ssize(*lines) && (*lines)[line - 1]);
  }
};

/// Returns the set of the 0-based numbers `lines` for RecordShare::lines. Throws DataError, starting with `origin`, for
/// numbers below 0 or above 2^31 - 1.
std::shared_ptr<const std::vector<bool>> line_set(const std::vector<int64_t>& lines, const std::string& origin);

/// Returns a prefix for the ids of the candidates of each file: the file's name up to its first dot, or the whole path
/// if this is the same for another file.
std::vector<std::string> record_file_names(const std::vector<std::filesystem::path>& files);

/// Returns the group name of a workload key: the key without double quotes, spaces and backslashes, and with _ for /.
std::string group_name(const std::string& workload_key);

/// Parses records one by one; reuses its memory. Make one object for each thread.
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();

  /// Overwrites `record` with the record that `text` is; record.line becomes 0. If `measured` is false, the result "r"
  /// is ignored or may be missing, and the record has no costs. `padded` says that LineSource::kPadding bytes behind
  /// the text may be read. Throws DataError with the reason if the text is not a record.
  void parse(std::string_view text, TuningRecord& record, bool measured = true, bool padded = false);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// Reads the records of TVM's auto_scheduler logs (JSON lines, plain or gzip; v0.5 and v0.6, TenSet's keys too) one at
/// a time: memory does not grow with the file. Counts and skips failed measurements and lines that are not records.
class RecordReader {
 public:
  /// Opens a log. Throws DataError if the file cannot be read or is of another known form, or `share` is invalid.
  explicit RecordReader(const std::filesystem::path& file, RecordShare share = {});

  /// Overwrites `record`, reusing its memory, with the next record of the share whose measurement did not fail; returns
  /// false at the end of the file. Throws DataError for damaged gzip data, and StorageError.
  bool next(TuningRecord& record);
  /// Reads the next record like next(), including failed measurements, which count as records and as errors.
  bool next_with_failed(TuningRecord& record);
  const RecordCounts& counts() const { return counts_; }
  /// Returns the 1-based number of the last line that was read, of any share; at the end, the file's number of lines.
  int64_t line_number() const { return lines_.line_number(); }

 private:
  /// Does the work of next(), or of next_with_failed() if `with_failed`.
  bool read(TuningRecord& record, bool with_failed);

  LineSource lines_;
  RecordShare share_;
  RecordParser parser_;
  RecordCounts counts_;
};

}  // namespace foretime::data
