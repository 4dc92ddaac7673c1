#include "models/members.h"

#include <utility>

namespace foretime::models {
namespace {

torch::Tensor mean_of(const std::vector<torch::Tensor>& scores) { return torch::stack(scores).mean(0); }

}  // namespace

Members::Members(std::vector<std::shared_ptr<CostModel>> members) : members_(std::move(members)) {
  const auto list = register_module("members", torch::nn::ModuleList());
  for (const auto& member : members_) list->push_back(member);
}

torch::Tensor Members::score(const PlanTensors& plan) { return mean_of(member_scores(plan)); }

std::vector<torch::Tensor> Members::member_scores(const PlanTensors& plan) {
  std::vector<torch::Tensor> scores;
  for (const auto& member : members_) scores.push_back(member->score(plan));
  return scores;
}

// Columns of the members stand side by side: all have the same settings, and so equal widths.

torch::Tensor Members::embed(const PlanTensors& plan) {
  std::vector<torch::Tensor> columns;
  for (const auto& member : members_) columns.push_back(member->embed(plan));
  return torch::cat(columns, 1);
}

torch::Tensor Members::score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr) {
  const auto parts = embedded.chunk(static_cast<int64_t>(members_.size()), 1);
  std::vector<torch::Tensor> scores;
  for (size_t m = 0; m < members_.size(); ++m) scores.push_back(members_[m]->score_embedded(parts[m], group_ptr));
  return mean_of(scores);
}

torch::Tensor Members::pool(const PlanTensors& plan) {
  std::vector<torch::Tensor> columns;
  for (const auto& member : members_) columns.push_back(member->pool(plan));
  return torch::cat(columns, 2);
}

torch::Tensor Members::combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const {
  const auto parts = pools.chunk(static_cast<int64_t>(members_.size()), 2);
  std::vector<torch::Tensor> columns;
  for (size_t m = 0; m < members_.size(); ++m) columns.push_back(members_[m]->combine_pools(parts[m], weights));
  return torch::cat(columns, 1);
}

torch::Tensor Members::score_pools(const torch::Tensor& pools) {
  const auto parts = pools.chunk(static_cast<int64_t>(members_.size()), 1);
  std::vector<torch::Tensor> scores;
  for (size_t m = 0; m < members_.size(); ++m) scores.push_back(members_[m]->score_pools(parts[m]));
  return mean_of(scores);
}

int64_t Members::pool_columns() const {
  return static_cast<int64_t>(members_.size()) * members_.front()->pool_columns();
}

std::string Members::describe_embed(FormWriter& writer) const {
  std::vector<std::string> columns;
  for (const auto& member : members_) columns.push_back(member->describe_embed(writer));
  return writer.join(columns);
}

std::string Members::describe_score(FormWriter& writer, const std::string& embedded) const {
  const int64_t columns = members_.front()->embedded_columns();
  std::vector<std::string> scores;
  for (const auto& member : members_) {
    const auto first = static_cast<int64_t>(scores.size()) * columns;
    scores.push_back(member->describe_score(writer, writer.select(embedded, first, columns)));
  }
  return writer.add(scores, std::vector<double>(scores.size(), 1.0 / static_cast<double>(scores.size())));
}

int64_t Members::embedded_columns() const {
  return static_cast<int64_t>(members_.size()) * members_.front()->embedded_columns();
}

void Members::fit_transform(const InputStatistics& statistics) {
  for (const auto& member : members_) member->fit_transform(statistics);
}

}  // namespace foretime::models
