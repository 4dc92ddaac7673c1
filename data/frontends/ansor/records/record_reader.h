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

/// What a reader met so far.
struct RecordCounts {
  /// Lines that are no record, and why: the first ones only, so that memory stays bounded.
  struct Malformed {
    int64_t line = 0;  // 1-based
    std::string reason;
  };
  static constexpr size_t kKept = 100;

  int64_t lines = 0;                            // of the reader's share
  int64_t skipped = 0;                          // empty, or starting with '#' or a space, as TVM skips them
  int64_t records = 0;                          // given by next()
  int64_t malformed = 0;                        // neither
  std::array<int64_t, kRecordErrors> errors{};  // measurements that failed, by RecordError; none has 0
  std::vector<Malformed> first_malformed;

  int64_t failed() const;  // sum of errors
};

/// A part of a file for one of several readers that share it: blocks of lines, dealt in turn. Finding lines is ten
/// times faster than reading them, so that readers of one compressed file hardly wait for what is not theirs.
struct RecordShare {
  static constexpr int64_t kBlock = 128;  // lines
  int64_t part = 0, parts = 1;
  std::shared_ptr<const std::vector<bool>> lines =
      {};  // by 0-based number; those beyond its end are not read. Null: all

  /// `line` is 1-based.
  bool has(int64_t line) const {
    if ((line - 1) / kBlock % parts != part) return false;
    return !lines || (static_cast<size_t>(line) <= lines->size() && (*lines)[static_cast<size_t>(line) - 1]);
  }
};

/// 0-based lines as RecordShare wants them. Throws DataError `origin: …` for numbers that are no lines.
std::shared_ptr<const std::vector<bool>> line_set(const std::vector<int64_t>& lines, const std::string& origin);

/// What stands before the colon and the line in ids of candidates from several files: each file's name up to its first
/// dot, or its path as it was given where another file has that name, too.
std::vector<std::string> record_file_names(const std::vector<std::filesystem::path>& files);

/// The group of a workload key: without quotes, blanks and backslashes, and with _ for /.
std::string group_name(const std::string& workload_key);

/// Reads records that come one by one. One object a thread: it keeps memory.
class RecordParser {
 public:
  RecordParser();
  ~RecordParser();

  /// Overwrites `record`, whose line is 0 then. Without `measured` the result, "r", is not looked at, and the record
  /// has no costs. `padded`: LineSource::kPadding bytes behind the text may be read. Throws DataError with the reason
  /// where the text is no record.
  void parse(std::string_view text, TuningRecord& record, bool measured = true, bool padded = false);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// The records of TVM's auto_scheduler logs (JSON lines, plain or gzip; v0.5 and v0.6, TenSet's keys too), one at a
/// time: memory does not grow with the file. Measurements that failed and lines that are no record are counted and kept
/// out.
class RecordReader {
 public:
  /// Throws DataError where the file cannot be read.
  explicit RecordReader(const std::filesystem::path& file, RecordShare share = {});

  /// False at the end. `record` is overwritten, its memory is used again. Throws DataError where gzip data are damaged.
  bool next(TuningRecord& record);
  /// As next, with measurements that failed (they count as records and as errors), for who wants their schedules.
  bool next_with_failed(TuningRecord& record);
  const RecordCounts& counts() const { return counts_; }
  /// Of the last line that was looked at, from 1 on; at the end, how many lines the file has.
  int64_t line_number() const { return lines_.line_number(); }

 private:
  bool read(TuningRecord& record, bool with_failed);

  LineSource lines_;
  RecordShare share_;
  RecordParser parser_;
  RecordCounts counts_;
};

}  // namespace foretime::data
