#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {

/// Describes a record's workload key. The key is JSON: `["function", arguments...]`, or the md5 of the DAG's text with
/// the shapes of inputs and outputs, `["md5", [1, 4096], [1, 1000]]`; older logs (v3.3 keys of TenSet) have flat
/// integers instead, `["md5", 1, 4096, 1, 1000]`.
struct WorkloadKey {
  bool is_hash = false;  // the first entry is an md5 (32 hexadecimal digits), not the name of a function
  std::string flat;      // first entry and all numbers, without nesting; equal for both forms of one md5 key
};

/// Parses a workload key. Throws DataError for text that is not a JSON list with a string in front.
WorkloadKey parse_workload_key(std::string_view text);

/// Finds compute DAGs by workload key.
class DagTable {
 public:
  DagTable() = default;
  /// Reads a file with one DAG per line, plain or gzip. Empty lines and lines that start with '#' are skipped; a line
  /// may be repeated. Throws DataError with file and line, also for different lines with one key and without DAGs.
  explicit DagTable(const std::filesystem::path& file);

  /// Adds a DAG under its workload key. Throws DataError if the key is invalid or the table has it.
  void add(std::shared_ptr<const ComputeDag> dag);
  /// Returns the DAG of a workload key; null if there is none. Keys with an md5 are equal if they differ only in
  /// nesting (WorkloadKey::flat). Throws DataError for an invalid key.
  std::shared_ptr<const ComputeDag> find(const std::string& workload_key) const;
  /// Returns the line of the DAG that find() returns; null if there is no such line. Throws as find() does.
  const std::string* find_line(const std::string& workload_key) const;
  const std::vector<std::shared_ptr<const ComputeDag>>& all() const { return dags_; }

 private:
  void add_line(std::string_view line);  // adds the DAG of a line of JSON unless the line is repeated

  std::vector<std::shared_ptr<const ComputeDag>> dags_;
  std::map<std::string, size_t, std::less<>> by_key_, by_flat_key_;
  std::map<std::string, std::string, std::less<>> lines_;  // lines of a file; key: workload key
};

}  // namespace foretime::data
