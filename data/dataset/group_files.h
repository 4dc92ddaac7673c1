#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"

namespace foretime::data {

/// Is called with each data file before it is opened; throws to refuse the file.
using FileCheck = std::function<void(const std::filesystem::path& file)>;
/// Lists the groups of `patterns`, sorted by name, without their arrays. A pattern is an .npz file, HLO as protobuf or
/// text, a packed collection (.foretime), a folder (all of these below it) or a glob with * ? ** and {a,b}; relative
/// patterns start at `root`. A group that occurs again, with the same name and fingerprint, is listed once. If a name
/// occurs with different contents in several of TpuGraphs' collections, all groups that have a collection get their
/// qualified names (data/graphs/group.h). Programs in .npz files become graphs of `featurizer`; packed collections must
/// have been made with it. Throws the errors of `admit`, StorageError, and DataError if a pattern matches nothing, a
/// folder has no data files, a file is damaged or not of `kind`, or groups of one name have different fingerprints.
std::vector<GroupHeader> list_groups(const std::vector<std::string>& patterns, const std::filesystem::path& root,
                                     CandidateKind kind, const FileCheck& admit = {},
                                     const FeaturizerPtr& featurizer = {});

/// Returns the kind of the groups in the first file that matches `pattern` (list_groups). Throws DataError if nothing
/// matches, or the file is not a data file or has no groups.
CandidateKind kind_of_files(const std::string& pattern, const std::filesystem::path& root);

/// Reads one group. Throws DataError for a file that has changed since it was listed, is damaged or truncated, lacks
/// entries, or has wrong types or shapes, ids or edges out of range, features that are not finite, or unusable run
/// times (check_runtimes; all may be 0, but not in an .npz of programs). Throws StorageError if the storage fails.
Group load_group(const GroupHeader& header);
/// Reads a layout group from an .npz or HLO file, not from a packed collection, and passes its node features and codes
/// to `sink` (read_layout). Throws the errors of load_group.
Group load_group(const GroupHeader& header, const LayoutSink& sink);

/// Returns a packed group's stored summary, or summarizes another group after load_group, whose errors it throws.
GroupSummary load_summary(const GroupHeader& header);

/// Returns the warnings of program_oddities, one line each, about an .npz of measured programs; none for other files.
std::vector<std::string> oddities_of(const GroupHeader& header);

/// Maps group names to the candidate ids by which TpuGraphs' validation graphs are evaluated, in the order of the file.
/// A repeated id counts repeatedly: one of the published lists was sampled with replacement.
using EvalIndices = std::map<std::string, std::vector<int64_t>>;

/// Reads {"graph": [ids, …], …} from a JSON file. If `file` is a folder, reads its files xla_random.json,
/// xla_default.json, nlp_random.json and nlp_default.json, as far as they exist, and qualifies the names in them by
/// their collections (data/graphs/group.h). Throws DataError for a file that is missing or not such JSON, for a graph
/// without ids or with negative ones, and for a folder without such files, and StorageError if the storage fails.
EvalIndices read_eval_indices(const std::filesystem::path& file);

/// Returns the candidate ids of a group by its qualified name, or else its plain name; null if neither is listed.
const std::vector<int64_t>* find_indices(const EvalIndices& indices, Collection collection, const std::string& name);

}  // namespace foretime::data
