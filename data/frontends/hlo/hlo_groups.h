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

/// Reads groups of HLO protobuf files (.pb): a module with the candidates that its runs measured. All code that lists
/// and loads groups accepts such files too (sharding/dataset_index.h).
namespace foretime::data {

/// Returns whether a file is HLO protobuf, plain or gzip: by its content, or by its name (.pb) if the content has no
/// known form.
bool is_hlo_file(const std::filesystem::path& path);

/// Holds a group and facts about its runs.
struct HloGroup {
  Group group;
  std::vector<int64_t> runtimes;  // [candidates] nanoseconds; all 0 without labels
  int64_t normalizer = 1;         // kind tile: run time of the default candidate; 1 without labels
  int64_t skipped_runs = 0;       // runs that failed or were not measured
  bool without_runs = false;      // the module has no runs and a single unlabelled candidate (read_hlo_group)
  std::vector<std::pair<std::string, int64_t>> unknown_opcodes;  // HloGraph::unknown_opcodes
};

/// Reads a module and its runs.
///
/// A module without runs becomes a layout group of one unlabelled candidate, whose 18 layout features are -1 at all
/// configurable nodes: no layout is given. Its configurable nodes are those of config_index_to_node, or else all
/// convolutions, dots and reshapes.
///
/// A non-null `sink` receives the two large arrays of a layout group. Throws the errors of module_graph.h and
/// hlo_file.h, and DataError for repeated or missing configurable nodes, if all runs failed, and if tiles were measured
/// but not the default one, whose time normalises the others.
HloGroup read_hlo_group(const HloFile& file, const HloFile::Module& module, const HloLimits& limits = {},
                        const LayoutSink* sink = nullptr);

/// Reads the graph of a module without candidates, which come from elsewhere. A graph of kind layout has the
/// configurable nodes of a module without runs; the other kind is tile. Throws the errors of read_hlo_group.
Group read_hlo_graph(const HloFile& file, const HloFile::Module& module, CandidateKind kind,
                     const HloLimits& limits = {});

/// Returns why a module of a TuningData is not a group: it has no candidates, or tiles without the time of the default
/// one. TpuGraphs skips such modules. Empty if it is a group, and for files with one module.
std::string skip_reason_of(const HloFile& file, const HloFile::Module& module);

/// Returns the modules that are groups. Throws DataError if there is none.
std::vector<HloFile::Module> groups_of(const HloFile& file);

/// Returns headers of the groups. Fingerprints are of their bytes in the file. Throws DataError.
std::vector<GroupHeader> hlo_headers(const std::filesystem::path& path);

/// Reads a group that `hlo_headers` has listed. Throws DataError if its bytes have changed since.
Group load_hlo_group(const GroupHeader& header, const LayoutSink* sink = nullptr);

}  // namespace foretime::data
