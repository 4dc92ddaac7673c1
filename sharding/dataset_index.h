#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/dataset/group_files.h"

/// The coordinator's list of all groups of a run, made from headers alone and broadcast to every rank.
namespace foretime::sharding {

enum class Role : uint8_t { train, valid, test };
std::string to_string(Role role);

struct CatalogueEntry {
  data::GroupHeader header;
  Role role = Role::train;
  int64_t parts = 1;     // pieces of the graph that different ranks may hold (see coordinator/cost.h)
  double draw_cost = 0;  // estimated work of one training draw, of one part
  int64_t draws = 0;     // draws of each part in an epoch (train)
};

struct Catalogue {
  std::vector<CatalogueEntry> entries;

  std::vector<int64_t> with_role(Role role) const;
  /// Changes when any group's contents, name or role changes, or the parts that it is cut into; independent of paths
  /// and of the number of ranks.
  uint64_t fingerprint() const;
};

data::CandidateKind candidate_kind(const std::string& format);

/// The entry of one group: its parts, the cost of a draw and, for training, the draws of an epoch. Throws as
/// count_parts does.
CatalogueEntry make_entry(data::GroupHeader header, Role role, const configs::Settings& settings);

/// Reads headers only, of files that data.confine allows. Throws data::DataError, and configs::SettingsError where
/// count_parts does.
Catalogue make_catalogue(const configs::Settings& settings);

/// Throws DataError where packed loop graphs (data.representation loops, curve) are taken for trees: they differ in
/// nothing but their columns. Only who looks at graphs has to ask.
void check_representation(const Catalogue& catalogue, const configs::DataSettings& settings);

std::string serialize(const Catalogue& catalogue);
/// `form` as in data::list_groups.
Catalogue parse_catalogue(const std::string& bytes, const data::ProgramFormPtr& form = {});

/// Checks that this rank sees the files that the coordinator listed, by fingerprint, for the entries it will read.
/// `admit` as in data::list_groups: a link may lead elsewhere on another host. Throws data::DataError naming the file
/// and what differs.
void verify_files(const Catalogue& catalogue, const std::vector<int64_t>& entries, const data::FileCheck& admit = {});

}  // namespace foretime::sharding
