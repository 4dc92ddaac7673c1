#include "data/frontends/ansor/printed/split_lengths.h"

#include <algorithm>

#include "base/error.h"

namespace foretime::data {

void add_split_lengths(const ScheduleSteps& schedule, const std::vector<int32_t>& axes,
                       const std::vector<int32_t>& spatial, SplitLengths& lengths) {
  // For each stage of the schedule so far: the stage of the DAG, and for each loop its axis there; -1: none.
  struct Tracked {
    int32_t stage = -1;
    std::vector<int32_t> loops = {};
  };
  const auto fresh = [&](int32_t stage, const std::vector<int32_t>& counts) {
    Tracked tracked{.stage = stage};
    for (int32_t axis = 0; stage >= 0 && axis < counts[stage]; ++axis) tracked.loops.push_back(axis);
    return tracked;
  };
  std::vector<Tracked> stages;
  for (int32_t s = 0; static_cast<size_t>(s) < axes.size(); ++s) stages.push_back(fresh(s, axes));
  for (const ScheduleStep& step : schedule.steps) {
    if (step.stage < 0 || static_cast<size_t>(step.stage) >= stages.size()) return;  // replay says what is wrong
    auto& tracked = stages[step.stage];
    const size_t at = std::max(0, step.iterator);
    const auto split = [&](size_t parts) {
      tracked.loops[at] = -1;
      tracked.loops.insert(tracked.loops.begin() + at, parts, -1);
    };
    const auto list = schedule.list(step);
    switch (step.kind) {
      case StepKind::split: {
        if (at >= tracked.loops.size()) return;
        if (const int32_t axis = tracked.loops[at]; axis >= 0 && step.extent > 0) {
          const auto [known, fresh_length] = lengths.try_emplace({tracked.stage, axis}, step.extent);
          if (!fresh_length && known->second != step.extent)
            throw DataError("records split axis {} of stage {} into {} and {}: they are of different programs", axis,
                            tracked.stage, known->second, step.extent);
        }
        split(list.size());
        break;
      }
      case StepKind::follow_split:
        if (at >= tracked.loops.size()) return;
        split(std::max(0, step.count));
        break;
      case StepKind::follow_fused_split:
        if (at >= tracked.loops.size()) return;
        split(1);
        break;
      case StepKind::fuse: {
        if (list.empty()) {
          tracked.loops.assign(1, -1);
          break;
        }
        const size_t begin = list.front();
        if (list.front() < 0 || begin + list.size() > tracked.loops.size()) return;
        tracked.loops[begin] = -1;
        tracked.loops.erase(tracked.loops.begin() + list.front() + 1,
                            tracked.loops.begin() + list.front() + list.size());
        break;
      }
      case StepKind::reorder: {
        std::vector<int32_t> moved;
        for (const int32_t place : list) {
          if (place < 0 || static_cast<size_t>(place) >= tracked.loops.size()) return;
          moved.push_back(tracked.loops[place]);
        }
        tracked.loops = std::move(moved);
        break;
      }
      case StepKind::cache_read:
        stages.insert(stages.begin() + step.stage + 1, fresh(tracked.stage, spatial));
        break;
      case StepKind::cache_write: {
        const int32_t stage = tracked.stage;
        tracked = fresh(stage, spatial);
        stages.insert(stages.begin() + step.stage, fresh(stage, axes));
        break;
      }
      case StepKind::rfactor: {
        tracked = Tracked{};
        stages.insert(stages.begin() + step.stage, Tracked{});
        return;  // its loops are parts of split ones
      }
      default:
        break;
    }
  }
}

}  // namespace foretime::data
