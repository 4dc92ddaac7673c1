#include "data/frontends/ansor/dag/dag_table.h"

#include <algorithm>
#include <utility>

#include <simdjson.h>

#include "base/error.h"
#include "data/files/file_form.h"
#include "data/files/line_source.h"

namespace foretime::data {
namespace {

/// Appends scalars in their order; arrays nest no deeper than simdjson's parser allows.
void flatten(const simdjson::dom::element& value, std::string& out) {
  simdjson::dom::array items;
  if (value.get(items) == simdjson::SUCCESS) {
    for (const simdjson::dom::element item : items) flatten(item, out);
    return;
  }
  out += ',';
  out += simdjson::minify(value);
}

}  // namespace

WorkloadKey parse_workload_key(std::string_view text) {
  constexpr size_t kDepth = 32, kHashDigits = 32;
  const auto fail = [&](std::string_view found) {
    return DataError("workload key '{}': {}, expected [\"function or md5\", arguments...]", text.substr(0, 80), found);
  };
  simdjson::dom::parser parser;
  if (parser.allocate(std::max<size_t>(text.size(), 64), kDepth) != simdjson::SUCCESS) throw fail("too long");
  simdjson::dom::element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) throw fail(simdjson::error_message(error));
  simdjson::dom::array list;
  if (root.get(list) != simdjson::SUCCESS || list.size() == 0) throw fail("no list");
  WorkloadKey key;
  std::string_view name;
  if (list.at(0).get(name) != simdjson::SUCCESS) throw fail("no name");
  key.is_hash = name.size() == kHashDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  key.flat = name;
  auto argument = list.begin();
  for (++argument; argument != list.end(); ++argument) flatten(*argument, key.flat);
  return key;
}

void DagTable::add(std::shared_ptr<const ComputeDag> dag) {
  const WorkloadKey key = parse_workload_key(dag->workload_key);
  if (!by_key_.emplace(dag->workload_key, dags_.size()).second)
    throw DataError("workload key {}: occurs twice, expected one compute DAG for each key", dag->workload_key);
  // Functions' arguments may nest in ways that matter; the md5 of a DAG with its shapes does not.
  if (key.is_hash) by_flat_key_.emplace(key.flat, dags_.size());
  dags_.push_back(std::move(dag));
}

std::shared_ptr<const ComputeDag> DagTable::find(const std::string& workload_key) const {
  const auto exact = by_key_.find(workload_key);
  if (exact != by_key_.end()) return dags_[exact->second];
  const WorkloadKey key = parse_workload_key(workload_key);
  const auto flat = key.is_hash ? by_flat_key_.find(key.flat) : by_flat_key_.end();
  return flat == by_flat_key_.end() ? nullptr : dags_[flat->second];
}

const std::string* DagTable::find_line(const std::string& workload_key) const {
  const auto dag = find(workload_key);
  const auto line = dag ? lines_.find(dag->workload_key) : lines_.end();
  return line == lines_.end() ? nullptr : &line->second;
}

void DagTable::add_line(std::string_view line) {
  auto dag = std::make_shared<const ComputeDag>(parse_compute_dag(line));
  const auto known = lines_.find(dag->workload_key);
  if (known != lines_.end()) {
    if (known->second == line) return;
    throw DataError("workload key {}: its line differs from an earlier one, expected one compute DAG for each key",
                    dag->workload_key);
  }
  lines_.emplace(dag->workload_key, line);
  add(std::move(dag));
}

DagTable::DagTable(const std::filesystem::path& file) {
  expect_form(file, {FileForm::dag_table}, "compute DAGs (JSON lines)");
  LineSource lines(file);
  while (const auto line = lines.next()) {
    if (line->text.empty() || line->text[0] == '#') continue;
    try {
      if (line->too_long) throw DataError("longer than the limit of a compute DAG");
      add_line(line->text);
    } catch (const DataError& error) {
      throw DataError("{}:{}: {}", file.string(), lines.line_number(), error.what());
    }
  }
  if (dags_.empty()) throw DataError("{}: found no line, expected compute DAGs", file.string());
}

}  // namespace foretime::data
