#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "data/frontends/hlo/hlo_file.h"
#include "data/frontends/hlo/module_graph.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"

/// Groups of HLO protobuf files (.pb): a module with the candidates that its runs measured. Everything that lists and
/// loads groups takes such files too (sharding/dataset_index.h).
namespace foretime::data {

/// Whether a file is taken for HLO protobuf, plain or gzip: by its content, and by its name (.pb) where that is of no
/// known form.
bool is_hlo_file(const std::filesystem::path& path);

struct HloGroup {
  Group group;
  std::vector<int64_t> runtimes;  // [candidates] nanoseconds; all 0 without labels
  int64_t normalizer = 1;         // kind tile: run time of the default candidate; 1 without labels
  int64_t runs_left_out = 0;      // failed or not measured
  bool without_runs = false;      // the one candidate stands for the module as it is, see read_hlo_group
  std::vector<std::pair<std::string, int64_t>> unknown_opcodes;  // as in HloGraph
};

/// Reads a module and its runs.
///
/// A module without runs is a layout group of one candidate without a label, whose 18 layout features are -1 at all
/// configurable nodes: nothing is said about any layout. Its configurable nodes are those that config_index_to_node
/// names, else all convolutions, dots and reshapes.
///
/// `sink`, where there is one, takes the two large arrays of a layout group. Throws DataError for everything that
/// module_graph.h and hlo_file.h refuse; for configurable nodes that are given twice or are not there; where all
/// runs failed; and where tiles were measured but not the default one, whose time normalises the others.
HloGroup read_hlo_group(const HloFile& file, const HloFile::Module& module, const HloLimits& limits = {},
                        const LayoutSink* sink = nullptr);

/// The graph of a module without candidates, for those that come from elsewhere: of kind layout with its configurable
/// nodes, chosen as for a module without runs, or of kind tile. Throws DataError as read_hlo_group does.
Group read_hlo_graph(const HloFile& file, const HloFile::Module& module, CandidateKind kind,
                     const HloLimits& limits = {});

/// Why a module of a TuningData is no group: it has no run that is a candidate, or tiles without the time of the
/// default one. The data set leaves such modules out. Empty where it is one, and for files with one module.
std::string why_left_out(const HloFile& file, const HloFile::Module& module);

/// The modules that are groups. Throws DataError where there is none.
std::vector<HloFile::Module> groups_of(const HloFile& file);

/// Headers of the same. Fingerprints are of their bytes in the file. Throws DataError.
std::vector<GroupHeader> hlo_headers(const std::filesystem::path& path);

/// The group that `hlo_headers` has listed. Throws DataError where its bytes have changed since.
Group load_hlo_group(const GroupHeader& header, const LayoutSink* sink = nullptr);

}  // namespace foretime::data
