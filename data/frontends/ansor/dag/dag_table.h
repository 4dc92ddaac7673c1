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
  bool is_hash = false;  // the name is 32 hexadecimal digits
  std::string flat;      // name and all arguments without nesting; equal for both forms of one workload
};

/// Parses a workload key. Throws DataError for any other text.
WorkloadKey parse_workload_key(std::string_view text);

/// Finds compute DAGs by workload key.
class DagTable {
 public:
  DagTable() = default;
  /// Reads a file with one DAG per line, plain or gzip. A line may be repeated, as in joined files of several machines.
  /// Throws DataError with file and line, also for two DAGs of one workload key.
  explicit DagTable(const std::filesystem::path& file);

  void add(std::shared_ptr<const ComputeDag> dag);
  /// Returns the DAG of a key, also if one of key and table has flat integers and the other has shapes; null if there
  /// is none. Throws DataError for an invalid key.
  std::shared_ptr<const ComputeDag> find(const std::string& workload_key) const;
  /// Returns the line of the file from which find() got its DAG; null if there is none.
  const std::string* find_line(const std::string& workload_key) const;
  const std::vector<std::shared_ptr<const ComputeDag>>& all() const { return dags_; }

 private:
  void add_line(std::string_view line);

  std::vector<std::shared_ptr<const ComputeDag>> dags_;
  std::map<std::string, size_t, std::less<>> by_key_, by_flat_key_;
  std::map<std::string, std::string, std::less<>> lines_;  // lines of a file; key: workload key
};

}  // namespace foretime::data
