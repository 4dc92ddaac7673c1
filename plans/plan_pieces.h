#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "data/graphs/group.h"
#include "plans/message_plan.h"
#include "plans/plan_source.h"

/// Candidates in pieces, for scoring many of them in bounded memory.
namespace foretime::plans {

/// How many candidates are planned at once, so that a plan has about `max_states` states (one candidate at the least).
/// What states are shared is known only when a plan is there: each piece tells the size of the next.
class PieceSize {
 public:
  PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states);

  int64_t candidates() const { return candidates_; }
  void observe(const MessagePlan& plan);

  /// What a plan takes, in states.
  static int64_t load(const MessagePlan& plan);

 private:
  int64_t limit_, candidates_;
  bool shares_;
};

/// Plans the candidates of a group in such pieces and calls `visit` with each, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit);

}  // namespace foretime::plans
