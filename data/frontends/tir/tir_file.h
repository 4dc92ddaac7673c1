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

/// One program of a file: its save_json text, or several forms of it (before and after lowering).
struct TirRecord {
  int64_t line = 0;          // from 1; 0 where the file is one text
  std::string id, workload;  // as the record names them, else "line 7" and ""
  double runtime = 0.0;      // seconds; 0 where the record has none, infinite where its program failed
  std::vector<std::pair<std::string, std::string>> texts;  // name of the member and text; "" where it has no name
};

/// A file of save_json text, plain or gzip, read as a stream. It is one text as TVM writes it, or JSON lines: each a
/// text, or an object with `id` (or `line`), `workload` (or `workload_key`), `runtime` in seconds or `failed` true, all
/// optional, and the text or texts in string members of any name.
class TirFile {
 public:
  /// Throws DataError where the file cannot be opened.
  explicit TirFile(const std::filesystem::path& path);
  ~TirFile();

  /// The next record; false at the end. Throws DataError for a line that is none of these, or a damaged file; after a
  /// bad line, the next call goes on behind it.
  bool next(TirRecord& record);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// The text of a record that `member` names, which may be empty where the record has one only. Throws DataError, with
/// `origin`, where there is no such text.
const std::string& choose_text(const TirRecord& record, const std::string& member, const std::string& origin);

/// The programs of a file as groups of kind program, one a workload in the order of their first records: graphs of
/// `featurizer`, or where it is null syntax trees with the node features that packed trees have. `member` names the
/// text of each record; it may be empty where records have one only. Run times are the records', or all 0 in a workload
/// where one of them has none. Throws DataError for what cannot be read.
std::vector<Group> read_tir_groups(const std::filesystem::path& path, const std::string& member,
                                   const TirLimits& limits = {}, const Featurizer* featurizer = nullptr);
/// Groups of several files, whose records of one workload are one group. With more than one file, ids begin with the
/// file's name without extensions and a colon.
std::vector<Group> read_tir_groups(const std::vector<std::filesystem::path>& paths, const std::string& member,
                                   const TirLimits& limits = {}, const Featurizer* featurizer = nullptr);

/// Packs the programs of files of save_json text into one collection, a group a workload (read_tir_groups): training,
/// evaluation and ranking then take them as any other. Returns the number of groups. Throws DataError for what cannot
/// be read, and for workloads of one name in two files.
int64_t pack_tir(const std::filesystem::path& out, const std::vector<std::filesystem::path>& files,
                 const std::string& member, const TirLimits& limits = {});

/// What `foretime data inspect` prints of a file of save_json text.
struct TirReport {
  std::string file;
  int64_t records = 0, workloads = 0, labelled = 0;  // labelled: records with a run time
  std::map<std::string, TirSummary> members;         // by the member that holds the text, "" where it has no name
  int64_t failures = 0;                              // texts or lines that could not be read
  std::vector<std::string> first_failures;           // at most five of their messages
};

/// Reads the whole file. Throws DataError where nothing in it can be read.
TirReport inspect_tir(const std::filesystem::path& path, const TirLimits& limits = {});

std::string to_text(const TirReport& report);

/// One JSON object, indented.
std::string to_json(const TirReport& report);

}  // namespace foretime::data
