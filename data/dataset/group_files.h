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

/// Lists the groups of `patterns`, sorted by name, without their arrays. A pattern is an .npz file, HLO protobuf (.pb),
/// a packed collection (.foretime), a folder (all of these below it) or a glob with * ? and {a,b}; relative ones start
/// at `root`. If a name occurs with different contents in several of TpuGraphs' collections, all groups that have a
/// collection get their qualified names (data/graphs/group.h). `admit`, if given, is called before each file is opened
/// and refuses it by throwing. Programs in .npz files become graphs of `featurizer`; packed collections must have been
/// made with it. Throws DataError if a pattern matches nothing, a folder is empty, a file is not of `kind`, or two
/// groups have one name and different fingerprints.
using FileCheck = std::function<void(const std::filesystem::path& file)>;
std::vector<GroupHeader> list_groups(const std::vector<std::string>& patterns, const std::filesystem::path& root,
                                     CandidateKind kind, const FileCheck& admit = {},
                                     const FeaturizerPtr& featurizer = {});

/// Returns the kind of the groups in the first file that matches `pattern` (list_groups). Throws DataError if nothing
/// matches or the file is not a data file.
CandidateKind kind_of_files(const std::string& pattern, const std::filesystem::path& root);

/// Reads one group. Throws DataError for damaged or truncated files, missing members, wrong types or shapes, ids or
/// edges out of range, NaN features, sizes that overflow, headers that claim more data than exist, and negative run
/// times. Zero run times are allowed only if all are zero (unlabelled files).
Group load_group(const GroupHeader& header);
/// Reads a layout group from an .npz or .pb; passes its large arrays to `sink` (read_layout).
Group load_group(const GroupHeader& header, const LayoutSink& sink);

/// Reads a packed group's summary, a few bytes for each candidate, or reads a whole .npz and summarizes it. Throws the
/// errors of load_group.
GroupSummary load_summary(const GroupHeader& header);

/// Returns warnings about a readable but suspicious file of a group, one line each. Empty if nothing looks wrong, and
/// for files other than an .npz of measured programs, which are the ones that users write. Throws DataError.
std::vector<std::string> oddities_of(const GroupHeader& header);

/// Maps group names to the candidate ids by which TpuGraphs' validation graphs are evaluated, in the order of the file.
/// A repeated id counts repeatedly: one of the published lists was sampled with replacement.
using EvalIndices = std::map<std::string, std::vector<int64_t>>;

/// Reads {"graph": [ids, …], …} from a file, or from a folder's files xla_random.json, xla_default.json and so on of
/// TpuGraphs; the latter's names are qualified by their collections (data/graphs/group.h), and other files are ignored.
/// Throws DataError for a file that is missing or not such JSON, for a graph without ids or with negative ones, and for
/// a folder without such files.
EvalIndices read_eval_indices(const std::filesystem::path& file);

/// Returns the indices of a group by its qualified or else its plain name; null if there are none.
const std::vector<int64_t>* find_indices(const EvalIndices& indices, Collection collection, const std::string& name);

}  // namespace foretime::data
