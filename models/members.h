#pragma once

#include <memory>
#include <vector>

#include "models/model.h"

namespace foretime::models {

/// Several models of the same settings with weights of their own (model.members), trained apart on the same batches;
/// the score is the mean of theirs. Parameters: members.N.….
class Members : public CostModel {
 public:
  explicit Members(std::vector<std::shared_ptr<CostModel>> members);

  plans::PlanRequest plan_request() const override { return members_.front()->plan_request(); }
  torch::Tensor score(const PlanTensors& plan) override;
  std::vector<torch::Tensor> member_scores(const PlanTensors& plan) override;
  std::vector<std::shared_ptr<CostModel>> members() const override { return members_; }
  torch::Tensor embed(const PlanTensors& plan) override;
  torch::Tensor score_embedded(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr) override;
  torch::Tensor pool(const PlanTensors& plan) override;
  torch::Tensor combine_pools(const torch::Tensor& pools, const torch::Tensor& weights) const override;
  torch::Tensor score_pools(const torch::Tensor& pools) override;
  int64_t pool_columns() const override;
  void fit_transform(const InputStatistics& statistics) override;
  std::string describe_embed(FormWriter& writer) const override;
  std::string describe_score(FormWriter& writer, const std::string& embedded) const override;
  int64_t embedded_columns() const override;
  plans::PlanRequest form_request() const override { return members_.front()->form_request(); }

 private:
  std::vector<std::shared_ptr<CostModel>> members_;
};

}  // namespace foretime::models
