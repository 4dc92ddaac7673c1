#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"
#include "inference/bundle/bundle.h"
#include "inference/scoring/model.h"

/// Bundles of small models made by hand, one of each kind, with random weights; and what they score.
namespace foretime::inference::testing {

struct LayoutModel {
  plans::Sharing sharing = plans::Sharing::states;
  bool compares = false;  // standardises over the candidates of a call
  bool tied = false;
  int64_t prune_hops = -1;
};

Bundle layout_bundle(const LayoutModel& form = {});
Bundle tile_bundle(plans::TileJoin join = plans::TileJoin::early);
/// Of loop graphs: over their nodes, or by their statements; `hardware`: whether the manifest fixes it; `failures`:
/// whether it tells chances of failure (by statements only).
Bundle loops_bundle(bool statements = true, bool hardware = false, bool failures = false);
/// Additive over statements, as the statement model: an ensemble whose member m makes costs by the weight
/// members.M.cost.
Bundle statement_cost_bundle(int64_t members);
Bundle trees_bundle();

std::shared_ptr<const Model> model_of(Bundle bundle, const Options& options = {});

/// Scores that are equal to rounding of the largest one.
void expect_near(const std::vector<float>& a, const std::vector<float>& b);

/// The bytes of a bundle that serialize_bundle might refuse.
std::string unchecked_bytes(const Bundle& bundle);

/// A graph with features, types and edges of HLO, without candidates.
data::Group small_graph(data::CandidateKind kind, int64_t nodes, int64_t configurable, uint32_t seed);
std::vector<int8_t> random_layouts(int64_t candidates, int64_t configurable, uint32_t seed);
/// [candidates, configurable, 18] of a group's first candidates, as GraphScorer takes them.
std::vector<int8_t> layouts_of(const data::Group& group, int64_t candidates);
std::vector<float> random_tiles(int64_t candidates, uint32_t seed);

/// Lines of a file in samples/, plain or gzip: the first `most` of them.
std::vector<std::string> sample_lines(const std::string& name, size_t most);

/// Records of samples/ with their workload's compute DAG.
struct SampleWorkload {
  std::string compute_dag;
  std::vector<std::string> records;
};
SampleWorkload sample_workload(size_t most_records);

std::vector<std::string_view> views(const std::vector<std::string>& texts);

/// save_json texts of samples/.
std::vector<std::string> sample_trees(size_t most);

/// An HloModuleProto with a convolution, a dot and a reshape.
std::string sample_module();

}  // namespace foretime::inference::testing
