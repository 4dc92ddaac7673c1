#include "plans/plan_pieces.h"

#include <algorithm>
#include <utility>

namespace foretime::plans {
namespace {

constexpr int64_t kFirst = 4096;
constexpr int64_t kSharedPerState = 16;  // numbers per candidate that cost as much memory as a state
constexpr double kGrowth = 16;

}  // namespace

PieceSize::PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states)
    : limit_(max_states), candidates_(1), shares_(source.symbolic != nullptr) {
  const int64_t alone = std::max<int64_t>(1, plan_states(group, 1, source.request));
  candidates_ = limit_ / alone;
  if (shares_) candidates_ = std::min(kFirst, kSharedPerState * limit_ / (alone + source.symbolic->classes.count()));
  candidates_ = std::max<int64_t>(1, candidates_);
}

int64_t PieceSize::load(const MessagePlan& plan) {
  int64_t load = static_cast<int64_t>(plan.readout.nodes.stages.back().columns.size()) / kSharedPerState;
  for (const auto& level : plan.levels) load = std::max(load, level->states());
  return load;
}

void PieceSize::observe(const MessagePlan& plan) {
  if (!shares_) return;
  const double fit = static_cast<double>(limit_) / static_cast<double>(std::max<int64_t>(1, load(plan)));
  const double next = static_cast<double>(plan.candidates()) * std::min(fit, kGrowth);
  candidates_ = std::max<int64_t>(1, static_cast<int64_t>(next));
}

void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit) {
  PieceSize piece(group, *source, max_states);
  for (size_t first = 0; first < candidates.size();) {
    const auto some =
        candidates.subspan(first, std::min(static_cast<size_t>(piece.candidates()), candidates.size() - first));
    PlanBuilder builder(source->request);
    builder.add(group, some, source);
    const auto plan = std::move(builder).build();
    piece.observe(plan);
    visit(plan);
    first += some.size();
  }
}

}  // namespace foretime::plans
