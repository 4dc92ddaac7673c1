#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset/group_files.h"
#include "data/dataset/records/record_packing.h"

namespace CLI {
class App;
}

/// Implements `foretime data` for the light and the full program, which pack in different ways.
namespace foretime::cli {

/// Holds the arguments of `foretime data pack`.
struct PackArguments {
  std::string out, format = "layout";
  std::vector<std::string> in;
  int64_t threads = 0;        // files packed at once by a rank; 0: its share of the cores
  int64_t memory_mib = 1024;  // MiB that the files being packed by a rank may take together
  bool force = false;         // true: the output may replace a file of another kind, or an input
};
using Packer = std::function<void(const PackArguments&)>;
using RecordPacker = std::function<void(const data::RecordPackRequest&)>;

void add_data_command(CLI::App& app, const Packer& pack, const RecordPacker& pack_records);

/// Lists the groups to pack. Throws OutputRefused if the output must not be replaced, DataError for unreadable files.
std::vector<data::GroupHeader> groups_to_pack(const PackArguments& arguments);
/// Returns a summary of the written file for the terminal.
std::string packed_text(const PackArguments& arguments, const std::vector<data::GroupHeader>& headers);

/// Packs groups with all ranks of this launch. Needs LibTorch and MPI (pack.cpp).
void pack_among_ranks(const PackArguments& arguments);
/// Packs tuning records with all ranks of this launch. Needs LibTorch and MPI (pack.cpp).
void pack_records_among_ranks(const data::RecordPackRequest& request);

/// Packs groups with the threads of this process.
void pack(const PackArguments& arguments);
/// Packs tuning records with the threads of this process.
void pack_records(const data::RecordPackRequest& request);

}  // namespace foretime::cli
