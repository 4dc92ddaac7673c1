#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "data/frontends/ansor/records/record_reader.h"
#include "tests/support/paths.h"

namespace foretime::testing {
using namespace data;

/// Changes schedules at random.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }

  int32_t number(int32_t near) {
    constexpr int32_t kOdd[] = {0, 1, -1, 2, 3, 7, 64, 1000, 65536, 2147483647, -2147483647};
    if (below(3) == 0) return kOdd[below(std::size(kOdd))];
    return static_cast<int32_t>(
        std::clamp<int64_t>(int64_t{near} + static_cast<int64_t>(below(5)) - 2, -2147483647, 2147483647));
  }

  void mutate(ScheduleSteps& schedule) {
    auto& steps = schedule.steps;
    if (steps.empty()) return;
    ScheduleStep& step = steps[below(steps.size())];
    switch (below(10)) {
      case 0:
        step.stage = number(step.stage);
        break;
      case 1:
        step.iterator = number(step.iterator);
        break;
      case 2:
        step.source =
            step.kind == StepKind::annotation ? static_cast<int32_t>(below(kAnnotations)) : number(step.source);
        break;
      case 3:
        step.count = std::max(1, number(step.count));
        break;
      case 4:
        if (step.list_size > 0) schedule.numbers[step.list_begin + below(step.list_size)] = std::max(0, number(2));
        break;
      case 5:
        step.kind = static_cast<StepKind>(below(kStepKinds));
        if (step.kind == StepKind::annotation) step.source = static_cast<int32_t>(below(kAnnotations));
        step.count = std::max(1, step.count);
        break;
      case 6:
        step.list_size = static_cast<uint32_t>(below(step.list_size + 1));
        break;
      case 7:
        std::swap(step, steps[below(steps.size())]);
        break;
      case 8:
        steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(below(steps.size())), steps[below(steps.size())]);
        break;
      default:
        if (below(2) == 0) {
          steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(below(steps.size())));
        } else {
          step.inner_to_outer = !step.inner_to_outer;
        }
        break;
    }
  }

  std::mt19937 random_;
};

/// The records of samples/ansor.
inline std::vector<TuningRecord> sample_records() {
  std::vector<TuningRecord> records;
  RecordReader reader(foretime::testing::samples_dir() / "ansor/records.jsonl.gz");
  TuningRecord record;
  while (reader.next(record)) records.push_back(record);
  return records;
}

}  // namespace foretime::testing
