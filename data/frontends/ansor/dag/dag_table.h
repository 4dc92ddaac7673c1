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

/// What a record's workload key says. It is JSON: `["function", arguments...]`, or the md5 of the DAG's text with the
/// shapes of inputs and outputs, `["md5", [1, 4096], [1, 1000]]`; older logs (v3.3 keys of TenSet) have flat integers
/// instead, `["md5", 1, 4096, 1, 1000]`.
struct WorkloadKey {
  bool is_hash = false;  // its name is 32 hexadecimal digits
  std::string flat;      // name and all arguments without their nesting: both forms of one workload have the same
};

/// Throws DataError where the key is not of that form.
WorkloadKey parse_workload_key(std::string_view text);

/// Compute DAGs by workload key.
class DagTable {
 public:
  DagTable() = default;
  /// Reads a file of one DAG a line, plain or gzip. A line may stand there again, as where files of several machines
  /// were joined. Throws DataError with file and line, also for two DAGs of one workload key.
  explicit DagTable(const std::filesystem::path& file);

  void add(std::shared_ptr<const ComputeDag> dag);
  /// The DAG of this key, also where the key has flat integers and the table's has shapes or the other way round; null
  /// if there is none. Throws DataError where the key is no workload key.
  std::shared_ptr<const ComputeDag> find(const std::string& workload_key) const;
  /// The line of the file that find's answer was read from; null where there is none.
  const std::string* find_line(const std::string& workload_key) const;
  const std::vector<std::shared_ptr<const ComputeDag>>& all() const { return dags_; }

 private:
  void add_line(std::string_view line);

  std::vector<std::shared_ptr<const ComputeDag>> dags_;
  std::map<std::string, size_t, std::less<>> by_key_, by_flat_key_;
  std::map<std::string, std::string, std::less<>> lines_;  // of a file, by workload key
};

}  // namespace foretime::data
