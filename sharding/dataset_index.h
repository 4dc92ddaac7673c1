#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/dataset/group_files.h"
#include "sharding/partition.h"

/// Lists all groups of a run's data set. Rank 0 makes the index from the groups' headers and broadcasts it.
namespace foretime::sharding {

enum class Role : uint8_t { train, valid, test };
std::string to_string(Role role);

/// Describes one group of a data set.
struct IndexEntry {
  data::GroupHeader header;
  Role role = Role::train;
  int64_t parts = 1;       // pieces of the graph that different ranks may hold (sharding/cost.h)
  double sample_cost = 0;  // estimated work of one training sample of one part
  double sharing = 1;   // n > 1 samples in one batch on one rank cost sample_cost * n^sharing, since they share states
  int64_t samples = 0;  // training samples of each part in an epoch; 0 unless the role is train
  /// Returns the cost of `count` samples in one batch on one rank.
  double cost_of(double count) const { return SharedGroup{.cost = sample_cost, .exponent = sharing}.of(count); }
};

/// Holds the groups of a data set: those of data.train first, then of data.valid and of data.test.
struct DatasetIndex {
  std::vector<IndexEntry> entries;

  const IndexEntry& operator[](int64_t entry) const { return entries[entry]; }
  /// Returns the numbers of all entries with a role, ascending.
  std::vector<int64_t> with_role(Role role) const;
  std::vector<data::GroupHeader> headers() const;
  /// Returns a hash that changes if the contents, name, role or number of parts of a group changes, or the order of the
  /// groups. The hash does not depend on paths and the number of ranks.
  uint64_t fingerprint() const;
  /// Returns the fingerprint of the training and validation groups alone, since test groups do not influence a
  /// training.
  uint64_t training_fingerprint() const;
};

/// Returns the kind of candidates that files of a format (data.format) hold.
data::CandidateKind candidate_kind(configs::DataFormat format);

/// Makes the entry of one group, with its number of parts, the cost of a sample and, for training, the samples of an
/// epoch. Throws configs::SettingsError as count_parts does.
IndexEntry make_entry(data::GroupHeader header, Role role, const configs::Settings& settings);

/// Makes the index of data.train, data.valid and data.test from the headers of their files. `columns` is the number of
/// columns of loop graphs (data::make_featurizer). Throws DataError if a file is missing, damaged or not allowed, or if
/// groups differ in the number of node features; StorageError; configs::SettingsError as count_parts does.
DatasetIndex make_dataset_index(const configs::Settings& settings, int64_t columns = 0);

/// Returns the number and some names of the groups of `role` whose contents are also trained on, as text; "" if none.
std::string find_overlap(const DatasetIndex& dataset, Role role);

/// Throws DataError if the number of columns of a group of programs shows that it was packed with data.representation
/// loops or curve, and `settings` have another representation. Must be called before node features are read.
void check_representation(const DatasetIndex& dataset, const configs::DataSettings& settings);

/// Returns the index as text for other ranks, without featurizers.
std::string serialize(const DatasetIndex& dataset);
/// Parses the result of `serialize`. Groups of programs that are not packed get `featurizer` (data::list_groups).
DatasetIndex parse_dataset_index(const std::string& bytes, const data::FeaturizerPtr& featurizer = {});

/// Checks by fingerprint that this rank sees the groups `entries` as rank 0 listed them. `admit` checks each file
/// (data::list_groups). Throws DataError naming the file and the difference, and the errors of data::list_groups.
void verify_files(const DatasetIndex& dataset, const std::vector<int64_t>& entries, const data::FileCheck& admit = {});

/// Returns a check that throws DataError for a file that does not exist or is outside of the folders of
/// data.allowed_roots, with symbolic links and `..` resolved; an empty function if the setting is empty. Throws
/// DataError if one of the folders does not exist. Both throw StorageError if the storage fails.
data::FileCheck allowed_roots_check(const configs::DataSettings& settings);

// Layout graphs whose sizes are known before their files exist, for `foretime plan`.

/// Holds values for columns that a list of sizes does not have. The defaults are those of TpuGraphs' xla:random: its
/// largest graph has 3,143 configurable nodes among 43,615, and a graph has 11,648 candidates on average.
struct SizeAssumptions {
  double configurable_share = 3143.0 / 43615.0;  // configurable nodes / nodes
  int64_t candidates = 11648;                    // candidates of a graph
};

/// Holds the graphs of a list of sizes.
struct SizeList {
  DatasetIndex dataset;               // all groups are training groups, named by the column `name`, else FILE:LINE
  bool assumed_configurable = false;  // the list has no column configurable
  bool assumed_candidates = false;    // the list has no column candidates
};

/// Reads a CSV file: a header line with the columns nodes and edges, and optionally configurable, candidates and name,
/// in any order; then one line for each graph. Throws DataError naming file, line and column for a missing, repeated or
/// unknown column, a wrong number or a list without graphs; and the errors of read_csv and count_parts.
SizeList read_size_list(const std::filesystem::path& file, const configs::Settings& settings,
                        const SizeAssumptions& assumptions = {});

}  // namespace foretime::sharding
