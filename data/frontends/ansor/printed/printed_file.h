#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// Files of printed DAGs: texts, and what their lines beside TVM's own say of them.
namespace foretime::data {

/// What a user says of a DAG.
struct PrintedHints {
  std::map<std::string, int64_t> extents = {};    // by "STAGE.AXIS"
  std::map<std::string, std::string> types = {};  // of inputs, by name; float32 where nothing is said
  /// By reader and name, numbers of stages from 0 on: which of several stages of that name it reads.
  std::map<std::pair<size_t, std::string>, size_t> reads = {};
};

/// One DAG of a file of printed ones.
struct PrintedDag {
  std::string text = {};    // its lines, each with a newline
  int64_t line = 0;         // of the first one, from 1 on
  std::string key = {};     // its workload key, where the file has it
  PrintedHints hints = {};  // that the file has
};

/// DAGs in a text stand apart by empty lines. Above one may stand its workload key, a line that starts with [, and
/// lines that start with #, in which words STAGE.AXIS=NUMBER, READER.NAME=STAGE (numbers of stages) and INPUT:TYPE are
/// hints. Throws DataError where the file cannot be read or has none.
std::vector<PrintedDag> read_printed_dags(const std::filesystem::path& file);

}  // namespace foretime::data
