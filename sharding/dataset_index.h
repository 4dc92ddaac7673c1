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
  int64_t parts = 1;       // pieces of the graph that different ranks may hold (see sharding/cost.h)
  double sample_cost = 0;  // estimated work of one training sample, of one part
  double sharing = 1;      // n > 1 samples of a batch on one rank cost sample_cost n^sharing, since they share states
  int64_t samples = 0;     // samples of each part in an epoch (train)
  /// Of `count` samples in one batch on one rank.
  double cost_of(double count) const { return SharedGroup{.cost = sample_cost, .exponent = sharing}.of(count); }
};

struct DatasetIndex {
  std::vector<IndexEntry> entries;

  const IndexEntry& operator[](int64_t entry) const { return entries[static_cast<size_t>(entry)]; }
  std::vector<int64_t> with_role(Role role) const;
  std::vector<data::GroupHeader> headers() const;
  /// Changes when any group's contents, name or role changes, or the parts that it is cut into; independent of paths
  /// and of the number of ranks.
  uint64_t fingerprint() const;
  /// As fingerprint, of the training and validation groups alone: test groups change nothing that a training does.
  uint64_t training_fingerprint() const;
};

data::CandidateKind candidate_kind(configs::DataFormat format);

/// The entry of one group: its parts, the cost of a sample and, for training, the samples of an epoch. Throws as
/// count_parts does.
IndexEntry make_entry(data::GroupHeader header, Role role, const configs::Settings& settings);

/// Reads headers only, of files that data.allowed_roots allows. `columns`: of loop graphs, as data::make_featurizer
/// takes them. Throws data::DataError, and configs::SettingsError where count_parts does.
DatasetIndex make_dataset_index(const configs::Settings& settings, int64_t columns = 0);

/// Which groups of `role` are trained on as well, by the contents of their files: how many, and the names of some.
/// Empty where none is.
std::string find_overlap(const DatasetIndex& dataset, Role role);

/// Throws DataError where packed loop graphs (data.representation loops, curve) are taken for trees: they differ in
/// nothing but their columns. To be called before node features of such groups are read.
void check_representation(const DatasetIndex& dataset, const configs::DataSettings& settings);

std::string serialize(const DatasetIndex& dataset);
/// `featurizer` as in data::list_groups.
DatasetIndex parse_dataset_index(const std::string& bytes, const data::FeaturizerPtr& featurizer = {});

/// Checks that this rank sees the files that the coordinator listed, by fingerprint, for the entries it will read.
/// `admit` as in data::list_groups: a link may lead elsewhere on another host. Throws data::DataError naming the file
/// and what differs.
void verify_files(const DatasetIndex& dataset, const std::vector<int64_t>& entries, const data::FileCheck& admit = {});

/// Refuses files outside of the folders of data.allowed_roots, for data::list_groups and for single files; empty where
/// the setting is. A file counts where it really lies: symbolic links and `..` are resolved, in the folders too, so
/// that neither a pattern nor a link leads out of them. Throws data::DataError naming file and folders, and for a
/// folder that does not exist.
data::FileCheck confinement(const configs::DataSettings& settings);

// Layout graphs known by their sizes alone, so that a plan can be made before there are files.

/// What stands for a column that the list does not have. The defaults are TpuGraphs' xla:random: its largest graph has
/// 3,143 configurable nodes among 43,615, and a graph has 11,648 candidates on average.
struct SizeAssumptions {
  double configurable_share = 3143.0 / 43615.0;
  int64_t candidates = 11648;
};

struct SizeList {
  DatasetIndex dataset;  // every group trains; named by the column `name`, or by its line
  bool assumed_configurable = false;
  bool assumed_candidates = false;
};

/// Reads a CSV file: a header line with the columns nodes and edges, and, if known, configurable, candidates and name,
/// in any order; then a line a graph. Throws data::DataError naming file, line, column, what was found and what was
/// expected; configs::SettingsError as count_parts does.
SizeList read_size_list(const std::filesystem::path& file, const configs::Settings& settings,
                        const SizeAssumptions& assumptions = {});

}  // namespace foretime::sharding
