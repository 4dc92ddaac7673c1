#include "worker/plan_pieces.h"

#include "data/plan_pieces.h"

namespace foretime::worker {

void for_each_plan(const data::Group& group, const std::shared_ptr<const data::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit) {
  const bool gradients = source->request.sharing == data::Sharing::none;
  data::for_each_plan(group, source, candidates, max_states, [&](const data::MessagePlan& plan) {
    visit(models::to_tensors(plan, {.device = device, .gradients = gradients}));
  });
}

}  // namespace foretime::worker
