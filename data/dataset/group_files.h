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

/// The groups that `patterns` name, sorted by name, headers only. A pattern is an .npz file, HLO protobuf (.pb), a
/// packed collection (.foretime), a folder (all of these below it) or a glob with * ? and {a,b}; relative ones start at
/// `root`. Where a name occurs with different contents in several of TpuGraphs' collections, all groups that have a
/// collection get their qualified names (data/graphs/group.h). Throws DataError where a pattern matches nothing, a
/// folder is empty, a file is not of `kind`, or two groups have one name and different fingerprints. `admit`, where
/// there is one, is asked before each file is opened and refuses it by throwing. Programs in .npz files become graphs
/// of `featurizer`; those of packed collections must be of it already.
using FileCheck = std::function<void(const std::filesystem::path& file)>;
std::vector<GroupHeader> list_groups(const std::vector<std::string>& patterns, const std::filesystem::path& root,
                                     CandidateKind kind, const FileCheck& admit = {},
                                     const FeaturizerPtr& featurizer = {});

/// Returns the kind of the groups in the first file that `pattern` names (list_groups). Throws DataError where it names
/// nothing, or the file is no data file.
CandidateKind kind_of_files(const std::string& pattern, const std::filesystem::path& root);

/// Reads one group. Throws DataError for anything that its format does not allow: damaged or truncated files, missing
/// members, wrong types or shapes, ids or edges out of range, NaN features, sizes that overflow, headers that claim
/// more data than there is. Run times that are negative are refused; zeros are allowed only if all are zero (unlabelled
/// files).
Group load_group(const GroupHeader& header);
/// Reads a layout group from an .npz or .pb; its large arrays go to `sink`, as read_layout says.
Group load_group(const GroupHeader& header, const LayoutSink& sink);

/// Reads a packed group's summary, a few bytes a candidate, or reads an .npz as a whole and sums it up. Throws
/// DataError as load_group.
GroupSummary load_summary(const GroupHeader& header);

/// What looks wrong in the file of a group although it can be read, one line each; empty where nothing does, and for
/// files other than an .npz of measured programs, which are the ones that users write. Throws DataError.
std::vector<std::string> oddities_of(const GroupHeader& header);

/// Candidates by which TpuGraphs' validation graphs are judged: group name → candidate ids, in the order of the file.
/// An id that stands there several times counts as often: one of the published lists was sampled with replacement.
using EvalIndices = std::map<std::string, std::vector<int64_t>>;

/// Reads {"graph": [ids, …], …}, or such files of a folder, TpuGraphs' xla_random.json, xla_default.json and so on; of
/// these graphs' names are qualified by their collections (data/graphs/group.h), and other files are not looked at.
/// Throws DataError for a file that is missing or not such JSON, and for a graph whose ids are none or
/// negative; likewise for a folder without any.
EvalIndices read_eval_indices(const std::filesystem::path& file);

/// The indices of a group, by its qualified name, else by its plain one; null where there are none.
const std::vector<int64_t>* find_indices(const EvalIndices& indices, Collection collection, const std::string& name);

}  // namespace foretime::data
