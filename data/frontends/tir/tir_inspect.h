#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/frontends/tir/tir_reader.h"

namespace foretime::data {

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
