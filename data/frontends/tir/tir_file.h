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

/// Holds one program of a file: its save_json text, or several forms of it (before and after lowering).
struct TirRecord {
  int64_t line = 0;          // 1-based; 0 if the file is one text
  std::string id, workload;  // ids in the record; default: "line 7" and ""
  double runtime = 0.0;      // seconds; 0 without a run time, infinite if the program failed
  std::vector<std::pair<std::string, std::string>> texts;  // name of the member and text; the name may be ""
};

/// Reads a file of save_json text, plain or gzip, as a stream. The file is one text written by TVM, or JSON lines: each
/// a text, or an object with `id` (or `line`), `workload` (or `workload_key`), `runtime` in seconds or `failed` true,
/// all optional, and the text or texts in string members of any name.
class TirFile {
 public:
  /// Opens the file. Throws DataError if that fails.
  explicit TirFile(const std::filesystem::path& path);
  ~TirFile();

  /// Reads the next record; returns false at the end. Throws DataError for an invalid line or a damaged file; after an
  /// invalid line, the next call continues behind it.
  bool next(TirRecord& record);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// Returns the text of a record in `member`, which may be empty if the record has only one text. Throws DataError, with
/// `origin`, if there is no such text.
const std::string& choose_text(const TirRecord& record, const std::string& member, const std::string& origin);

/// Reads the programs of a file as groups of kind program, one for each workload in the order of their first records:
/// graphs of `featurizer`, or, if it is null, syntax trees with the node features of packed trees. `member` selects the
/// text of each record; it may be empty if records have only one. Run times are those of the records, or all 0 in a
/// workload with a record without one. Throws DataError if the file cannot be read.
std::vector<Group> read_tir_groups(const std::filesystem::path& path, const std::string& member,
                                   const TirLimits& limits = {}, const Featurizer* featurizer = nullptr);
/// Reads groups of several files; records of one workload form one group. With more than one file, ids begin with the
/// file's name without extensions and a colon.
std::vector<Group> read_tir_groups(const std::vector<std::filesystem::path>& paths, const std::string& member,
                                   const TirLimits& limits = {}, const Featurizer* featurizer = nullptr);

/// Packs the programs of files of save_json text into one collection with a group for each workload (read_tir_groups),
/// for training, evaluation and ranking. Returns the number of groups. Throws DataError for unreadable files and for
/// workloads of one name in two files.
int64_t pack_tir(const std::filesystem::path& out, const std::vector<std::filesystem::path>& files,
                 const std::string& member, const TirLimits& limits = {});

/// Holds the output of `foretime data inspect` for a file of save_json text.
struct TirReport {
  std::string file;
  int64_t records = 0, workloads = 0, labelled = 0;  // labelled: records with a run time
  std::map<std::string, TirSummary> members;         // key: member that holds the text; "" for texts without a member
  int64_t failures = 0;                              // texts or lines that could not be read
  std::vector<std::string> first_failures;           // messages, not more than five
};

/// Reads and summarizes the whole file. Throws DataError if nothing in it can be read.
TirReport inspect_tir(const std::filesystem::path& path, const TirLimits& limits = {});

std::string to_text(const TirReport& report);

/// Returns one indented JSON object.
std::string to_json(const TirReport& report);

}  // namespace foretime::data
