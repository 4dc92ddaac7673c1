#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/frontends/tir/tir_reader.h"
#include "data/graphs/group.h"
#include "data/graphs/program_nodes.h"

namespace foretime::data {

/// Holds one record of a file: a program as save_json text, or in several forms (before and after lowering).
struct TirRecord {
  int64_t line = 0;      // 1-based; 0 if the whole file is one text
  std::string id;        // the record's id; without one "line 7", or the file's name if the whole file is one text
  std::string workload;  // the record's workload; "" if it has none
  double runtime = 0.0;  // seconds; 0 without a run time, infinite if the program failed
  /// Holds the name of each member that is a text, and the text. The name is "" if the line or file is only the text.
  std::vector<std::pair<std::string, std::string>> texts;
};

/// Reads a file of save_json text, plain or gzip, as a stream. The file is one text that TVM wrote in several lines, or
/// JSON lines. Each line is a text, or an object with texts in string members of any name, and optionally `id` (or
/// `line`), `workload` (or `workload_key`), `runtime` in seconds, and `failed` (true or false).
class TirFile {
 public:
  /// Opens the file. Throws DataError if it is unreadable or of another known form, StorageError if the storage fails.
  explicit TirFile(const std::filesystem::path& path);
  ~TirFile();

  /// Overwrites `record` with the next record; returns false at the end of the file. Throws DataError for a text above
  /// 2^28 bytes, a damaged file, and an invalid line, behind which the next call continues.
  bool next(TirRecord& record);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// Returns the record's text in the member named `member`; if `member` is empty, the record's only text. Throws
/// DataError, starting with `origin`, if the record lacks the member, or has several texts and `member` is empty.
const std::string& choose_text(const TirRecord& record, const std::string& member, const std::string& origin);

/// Reads the programs of files as groups of kind program, one group for each workload in the order of the workloads'
/// first records, also from several files. Records without a workload form a group with their file's name, without
/// extensions; with more than one file, candidates' ids begin with that name and a colon. The graphs are those of
/// `featurizer`; if it is null, they are syntax trees with the node features of packed trees. `member` selects the text
/// of each record (choose_text). If a record has no run time, all run times of its group become 0. Throws DataError for
/// an unreadable file, an invalid text or one of several functions, two targets in a group, no record; StorageError.
std::vector<Group> read_tir_groups(const std::vector<std::filesystem::path>& paths, const std::string& member,
                                   const TirLimits& limits = {}, const Featurizer* featurizer = nullptr);

/// Packs the programs of files of save_json text into the collection `out`, with a group for each workload of each file
/// (read_tir_groups). Returns the number of groups. Throws the errors of read_tir_groups, DataError if two files
/// have workloads of one name or all programs of a group failed, and FileError if `out` cannot be written.
int64_t pack_tir(const std::filesystem::path& out, const std::vector<std::filesystem::path>& files,
                 const std::string& member, const TirLimits& limits = {});

/// Holds the output of `foretime data inspect` for a file of save_json text.
struct TirReport {
  std::string file;
  int64_t records = 0, workloads = 0;         // records in the file; distinct workloads that they name
  int64_t labelled = 0;                       // records with a run time, failed ones included
  std::map<std::string, TirSummary> members;  // key: member that holds the text; "" for texts without a member
  int64_t failures = 0;                       // number of texts and lines that could not be read
  std::vector<std::string> first_failures;    // messages of the first failures, at most five
};

/// Reads and summarizes the whole file. Throws DataError if it cannot be opened or none of its texts can be read.
TirReport inspect_tir(const std::filesystem::path& path, const TirLimits& limits = {});

std::string to_text(const TirReport& report);  // the report as lines for a terminal

std::string to_json(const TirReport& report);  // the report as one indented JSON object

}  // namespace foretime::data
