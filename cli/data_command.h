#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/pack_records.h"
#include "data/dataset/group_files.h"

/// `foretime data`, but for what packing needs of LibTorch and MPI: the light program has it as well.
namespace foretime::cli {

struct PackArguments {
  std::string out, format = "layout";
  std::vector<std::string> in, plans;
  int64_t threads = 0, memory_mib = 1024;
};
using Packer = std::function<void(const PackArguments&)>;

void add_data_command(CLI::App& app, const Packer& pack, const RecordPackRunner& pack_records);

/// The groups that the arguments name.
std::vector<data::GroupHeader> groups_to_pack(const PackArguments& arguments);
/// What was written, for the terminal.
std::string packed_text(const PackArguments& arguments, const std::vector<data::GroupHeader>& headers);

/// Packs by the threads of this process; `plans` must be empty.
void pack_alone(const PackArguments& arguments);

}  // namespace foretime::cli
