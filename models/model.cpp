#include "models/model.h"

namespace foretime::models {
namespace {

[[noreturn]] void refuse_pieces() {
  throw ModelError("a graph in pieces, for a model of whole graphs: set sampler.max_segment_nodes to 0");
}

}  // namespace

torch::Tensor CostModel::pool(const PlanTensors&) { refuse_pieces(); }
torch::Tensor CostModel::combine_pools(const torch::Tensor&, const torch::Tensor&) const { refuse_pieces(); }
torch::Tensor CostModel::score_pools(const torch::Tensor&) { refuse_pieces(); }
int64_t CostModel::pool_columns() const { refuse_pieces(); }
std::string CostModel::describe_embed(FormWriter&) const {
  throw ModelError("a model that cannot be exported: it has no description in primitive operations");
}

}  // namespace foretime::models
