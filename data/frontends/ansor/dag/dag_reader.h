#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {

/// Reads a compute DAG from a line of JSON (FORMATS: dags.jsonl). Throws DataError, which names stage and field.
ComputeDag parse_compute_dag(std::string_view json);

/// Reads a DAG as TVM prints it, without the md5 of the key. The text leaves out the shapes of inner stages and the
/// extents of reductions; they are filled in from the shapes of inputs (which the text has) and of outputs (which a
/// workload key with shapes has last), wherever an axis alone indexes a dimension: then it runs over all of it. Throws
/// DataError, which names the axis, where that does not give all extents: such a DAG must be given as JSON.
ComputeDag parse_dag_text(std::string_view text, std::string_view workload_key);

/// Compute DAGs by workload key.
class DagTable {
 public:
  DagTable() = default;
  /// Reads a file of one DAG a line, plain or gzip. Throws DataError with file and line.
  explicit DagTable(const std::filesystem::path& file);

  void add(std::shared_ptr<const ComputeDag> dag);
  /// The DAG of this key, also where the key has flat integers and the table's has shapes or the other way round; null
  /// if there is none. Throws DataError where the key is no workload key.
  std::shared_ptr<const ComputeDag> find(const std::string& workload_key) const;
  const std::vector<std::shared_ptr<const ComputeDag>>& all() const { return dags_; }

 private:
  std::vector<std::shared_ptr<const ComputeDag>> dags_;
  std::map<std::string, size_t, std::less<>> by_key_, by_flat_key_;
};

}  // namespace foretime::data
