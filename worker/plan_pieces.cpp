#include "worker/plan_pieces.h"

#include <algorithm>
#include <span>

namespace foretime::worker {
namespace {

/// How many candidates are scored at once, so that a plan has about `max_states` states. What states are shared is
/// known only when a plan is there: each piece tells the size of the next.
class PieceSize {
 public:
  PieceSize(const data::Group& group, const data::PlanSource& source, int64_t max_states) : limit_(max_states) {
    const int64_t alone = std::max<int64_t>(1, data::plan_states(group, 1, source.request));
    shares_ = source.skeleton != nullptr;
    candidates_ = limit_ / alone;
    if (shares_) candidates_ = std::min(kFirst, kSharedPerState * limit_ / (alone + source.skeleton->classes.count()));
    candidates_ = std::max<int64_t>(1, candidates_);
  }
  int64_t candidates() const { return candidates_; }
  void observe(const data::MessagePlan& plan) {
    if (!shares_) return;
    int64_t load = static_cast<int64_t>(plan.readout.nodes.stages.back().columns.size()) / kSharedPerState;
    for (const auto& level : plan.levels) load = std::max(load, level->states());
    const double fit = static_cast<double>(limit_) / static_cast<double>(std::max<int64_t>(1, load));
    const double next = static_cast<double>(plan.candidates()) * std::min(fit, kGrowth);
    candidates_ = std::max<int64_t>(1, static_cast<int64_t>(next));
  }

 private:
  static constexpr int64_t kFirst = 4096;
  static constexpr int64_t kSharedPerState = 16;  // numbers per candidate that cost as much memory as a state
  static constexpr double kGrowth = 16;
  int64_t limit_, candidates_;
  bool shares_;
};

}  // namespace

void for_each_plan(const data::Group& group, const std::shared_ptr<const data::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit) {
  PieceSize piece(group, *source, max_states);
  for (size_t first = 0; first < candidates.size();) {
    const std::span<const int64_t> some(candidates.data() + first,
                                        std::min(static_cast<size_t>(piece.candidates()), candidates.size() - first));
    data::PlanBuilder builder(source->request);
    builder.add(group, some, source);
    const auto plan = std::move(builder).build();
    piece.observe(plan);
    visit(models::to_tensors(plan, {.device = device, .gradients = source->request.sharing == data::Sharing::none}));
    first += some.size();
  }
}

}  // namespace foretime::worker
