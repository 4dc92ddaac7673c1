#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// From files of printed compute DAGs to a table of DAGs.
namespace foretime::data {

struct DagConversion {
  struct LeftOut {
    std::string what, why;  // FILE:LINE of a DAG, or a workload key
  };
  int64_t written = 0;
  int64_t replayed = 0;           // records that were tried on the DAGs that are written
  std::vector<LeftOut> left_out;  // DAGs that cannot be read as a whole
  int64_t without_dag = 0;        // workload keys of the records that no text is of
  std::vector<std::string> first_without_dag;
};

/// Reads the DAGs of `printed`, and writes those to `out` (gzip where its name ends in .gz) that are known as a whole.
/// Their workload keys stand in the files, or are those of `records` whose md5 and shapes are theirs. Where there are
/// records, lengths of loops are taken from their splits, and some records of each DAG are replayed: a DAG on which
/// none can be is left out. Throws DataError where a file cannot be read, or where nothing is left to write.
DagConversion convert_printed_dags(const std::vector<std::filesystem::path>& printed,
                                   const std::vector<std::filesystem::path>& records, const std::filesystem::path& out);

}  // namespace foretime::data
