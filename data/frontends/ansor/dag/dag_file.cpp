#include <fmt/format.h>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/dag/dag_reader.h"

// Apart from dag_reader.cpp: programs that have the DAGs in memory link no reader of files.
namespace foretime::data {

DagTable::DagTable(const std::filesystem::path& file) {
  LineSource lines(file);
  while (const auto line = lines.next()) {
    if (line->text.empty() || line->text[0] == '#') continue;
    try {
      if (line->too_long) throw DataError("longer than expected of a compute DAG");
      add(std::make_shared<const ComputeDag>(parse_compute_dag(line->text)));
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}:{}: {}", file.string(), lines.line_number(), error.what()));
    }
  }
  if (dags_.empty()) throw DataError(fmt::format("{}: no line, expected compute DAGs", file.string()));
}

}  // namespace foretime::data
