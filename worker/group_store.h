#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "coordinator/catalogue.h"
#include "data/eval_indices.h"
#include "data/group.h"
#include "data/plan_source.h"

namespace foretime::worker {

/// A group in memory, with its candidates divided. Duplicates of one configuration fall on the same side.
struct LoadedGroup {
  data::Group group;
  std::shared_ptr<const data::PlanSource> plan_source;  // under the model's plan request
  std::vector<int64_t> train;      // candidates to train on, ascending; empty unless the role is train
  std::vector<double> speed_rank;  // [train] 0 for the fastest … 1 for the slowest, for sampler.fast_bias
  std::vector<int64_t> evaluated;  // candidates to evaluate: held out (train), or official or all (valid, test)
};

/// Official candidates by group name; groups that are not named are evaluated on all.
using data::EvalIndices;

/// The indices of data.eval_indices, relative to data.root; empty where none is named. Throws data::DataError.
EvalIndices load_official_indices(const configs::DataSettings& settings);

/// Divides a group's candidates as the settings say; a pure function of them and the group's contents. Throws
/// data::DataError where official indices are out of range, or a training group has no labels or no candidates left.
void divide_candidates(LoadedGroup& loaded, coordinator::Role role, const configs::Settings& settings,
                       const EvalIndices& official);

/// The groups of one rank, loaded once.
class GroupStore {
 public:
  /// Reads the given entries of the catalogue. Throws data::DataError.
  GroupStore(const configs::Settings& settings, const coordinator::Catalogue& catalogue,
             const std::vector<int64_t>& entries, const EvalIndices& official);
  const LoadedGroup& get(int64_t entry) const { return groups_.at(entry); }
  /// Makes what each group's plans have in common, once the model is known; not of layout graphs of more than
  /// `max_nodes` nodes, which are planned by segment (0: no limit).
  void prepare_plans(const data::PlanRequest& request, int64_t max_nodes = 0);
  const std::map<int64_t, LoadedGroup>& all() const { return groups_; }

 private:
  std::map<int64_t, LoadedGroup> groups_;
};

}  // namespace foretime::worker
