#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/frontends/hlo/hlo_file.h"
#include "data/frontends/hlo/module_graph.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"

/// Reads groups of HLO files (HloFile): a group is a module with the candidates that its runs measured. All code that
/// lists and loads groups accepts such files (sharding/dataset_index.h).
namespace foretime::data {

/// Returns whether a file is HLO by its content (form_of), or by its name (.pb) for unknown content.
bool is_hlo_file(const std::filesystem::path& path);

/// Reads a module of `file` and the module's runs as a group without collection. A tile's run time is divided by that
/// of the default tile, if tiles were measured.
///
/// A module without runs becomes a layout group of one candidate without a run time, whose 18 layout features are -1 at
/// all configurable nodes: no layout is given. Configurable: config_index_to_node, else all convolutions, dots and
/// reshapes.
///
/// A non-null `sink` receives the node features and codes of a layout group, which then lacks them. Throws the errors
/// of module_graph.h and hlo_file.h, and DataError if all runs failed, if config_index_to_node has a node twice, one
/// that the graph lacks, or none for measured layouts, and if tiles were measured but not the default one.
Group read_hlo_group(const HloFile& file, const HloFile::Module& module, const HloLimits& limits = {},
                     const LayoutSink* sink = nullptr);

/// Reads the graph of a module into a group of kind `kind` (layout or tile) without candidates; the module's runs are
/// ignored. A layout group has the configurable nodes of a module without runs. Throws the errors of module_graph.h,
/// and DataError for wrong nodes in config_index_to_node.
Group read_hlo_graph(const HloFile& file, const HloFile::Module& module, CandidateKind kind,
                     const HloLimits& limits = {});

/// Returns why a module of a TuningData does not become a group: it has no runs, all runs failed, or tiles were
/// measured but not the default one. TpuGraphs skips such modules. Empty for other modules, and always for other types
/// of files. Throws the errors of choose_candidates.
std::string skip_reason_of(const HloFile& file, const HloFile::Module& module);

/// Returns the modules that become groups: those with an empty skip_reason_of(). Throws DataError if there is none.
std::vector<HloFile::Module> groups_of(const HloFile& file);

/// Reads a file and returns the header of each group in it (groups_of). A header's fingerprint is the checksum of the
/// module's encoded message. Throws the errors of HloFile, groups_of and read_module_graph.
std::vector<GroupHeader> hlo_headers(const std::filesystem::path& path);

/// Reads a group that hlo_headers() has listed; `sink` is that of read_hlo_group. Throws DataError if the file no
/// longer has the module or the module's bytes have changed, and the errors of HloFile and read_hlo_group.
Group load_hlo_group(const GroupHeader& header, const LayoutSink* sink = nullptr);

}  // namespace foretime::data
