#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/dataset/group_files.h"
#include "sharding/partition.h"

/// The index of a run's data set: all its groups, made from headers alone and broadcast to every rank.
namespace foretime::sharding {

enum class Role : uint8_t { train, valid, test };
std::string to_string(Role role);

struct IndexEntry {
  data::GroupHeader header;
  Role role = Role::train;
  int64_t parts = 1;       // pieces of the graph that different ranks may hold (sharding/cost.h)
  double sample_cost = 0;  // estimated work of one training sample of one part
  double sharing = 1;      // n > 1 samples on one rank cost sample_cost n^sharing, since they share states
  int64_t samples = 0;     // training samples of each part in an epoch
  /// Returns the cost of `count` samples in one batch on one rank.
  double cost_of(double count) const { return SharedGroup{.cost = sample_cost, .exponent = sharing}.of(count); }
};

struct DatasetIndex {
  std::vector<IndexEntry> entries;

  const IndexEntry& operator[](int64_t entry) const { return entries[entry]; }
  /// Returns the numbers of all entries with a role, ascending.
  std::vector<int64_t> with_role(Role role) const;
  std::vector<data::GroupHeader> headers() const;
  /// Returns a hash that changes when any group's contents, name, role or number of parts changes. It does not depend
  /// on paths and the number of ranks.
  uint64_t fingerprint() const;
  /// Returns the fingerprint of the training and validation groups alone, since test groups do not influence a
  /// training.
  uint64_t training_fingerprint() const;
};

/// Returns the kind of candidates of a file format.
data::CandidateKind candidate_kind(configs::DataFormat format);

/// Makes the entry of one group: its parts, the cost of a sample and, for training, the samples of an epoch. Throws as
/// count_parts does.
IndexEntry make_entry(data::GroupHeader header, Role role, const configs::Settings& settings);

/// Reads the headers of files that data.allowed_roots allows. `columns` is the number of columns of loop graphs
/// (data::make_featurizer). Throws data::DataError, and configs::SettingsError as count_parts does.
DatasetIndex make_dataset_index(const configs::Settings& settings, int64_t columns = 0);

/// Returns a text about the groups of `role` that are also trained on, by the contents of their files: their number,
/// and the names of some. "" if there are none.
std::string find_overlap(const DatasetIndex& dataset, Role role);

/// Throws DataError if packed loop graphs (data.representation loops, curve) would be read as trees, from which only
/// their columns differ. Must be called before node features of such groups are read.
void check_representation(const DatasetIndex& dataset, const configs::DataSettings& settings);

/// Serialises an index for other ranks.
std::string serialize(const DatasetIndex& dataset);
/// Parses the result of `serialize`. For `featurizer` see data::list_groups.
DatasetIndex parse_dataset_index(const std::string& bytes, const data::FeaturizerPtr& featurizer = {});

/// Checks by fingerprint that this rank sees the files that the coordinator listed, for the entries that the rank will
/// read. For `admit` see data::list_groups: a link may have another target on another host. Throws data::DataError
/// naming the file and the difference.
void verify_files(const DatasetIndex& dataset, const std::vector<int64_t>& entries, const data::FileCheck& admit = {});

/// Returns a check that refuses files outside of the folders of data.allowed_roots, for data::list_groups and single
/// files; an empty function if the setting is empty. Symbolic links and `..` are resolved in files and folders, so that
/// neither a pattern nor a link can leave the folders. The check throws data::DataError naming file and folders; a
/// folder that does not exist throws immediately.
data::FileCheck allowed_roots_check(const configs::DataSettings& settings);

// Layout graphs of which only sizes are known, so that a plan can be made before files exist.

/// Holds values for columns that the list does not have. The defaults are of TpuGraphs' xla:random: its largest graph
/// has 3,143 configurable nodes among 43,615, and a graph has 11,648 candidates on average.
struct SizeAssumptions {
  double configurable_share = 3143.0 / 43615.0;
  int64_t candidates = 11648;
};

struct SizeList {
  DatasetIndex dataset;  // all groups train; their names are from the column `name`, or line numbers
  bool assumed_configurable = false;
  bool assumed_candidates = false;
};

/// Reads a CSV file: a header line with the columns nodes and edges, and optionally configurable, candidates and name,
/// in any order; then one line a graph. Throws data::DataError naming file, line, column, found and expected value;
/// configs::SettingsError as count_parts does.
SizeList read_size_list(const std::filesystem::path& file, const configs::Settings& settings,
                        const SizeAssumptions& assumptions = {});

}  // namespace foretime::sharding
