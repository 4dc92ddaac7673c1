#include "worker/store/plan_pieces.h"

#include "plans/plan_source.h"

namespace foretime::worker {

void for_each_plan(const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit) {
  const bool gradients = source->request.sharing == plans::Sharing::none;
  plans::for_each_plan(group, source, candidates, max_states, [&](const plans::MessagePlan& plan) {
    visit(models::to_tensors(plan, {.device = device, .gradients = gradients}));
  });
}

}  // namespace foretime::worker
