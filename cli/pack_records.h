#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "data/frontends/loops/record_pack.h"

/// `foretime data pack-records`.
namespace foretime::cli {

struct PackRecordsArguments {
  std::string representation = "loops";
  std::string out, dags, lines, member, networks;
  std::vector<std::filesystem::path> in;
  std::vector<std::string> take, never, hardware;
  int64_t most = 0, least = 2, threads = 0, memory_mib = 1024;
  uint64_t seed = 1;
};

/// What a process of several has to do; a process alone is 0 of 1.
struct PackShare {
  int64_t process = 0, processes = 1, threads = 1;
  std::string token = {};
  /// Runs something in all processes; where it throws in one, it throws in all.
  std::function<void(const std::function<void()>&)> together = [](const std::function<void()>& run) { run(); };
};

using RecordPackRunner = std::function<void(const PackRecordsArguments&)>;
void add_pack_records(CLI::App& data_command, const RecordPackRunner& run);

/// Packs this process's share; process 0 joins the parts and says what was written. Throws data::DataError.
void pack_record_share(const PackRecordsArguments& arguments, const PackShare& share);
/// By the threads of this process.
void pack_records_alone(const PackRecordsArguments& arguments);

}  // namespace foretime::cli
