#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/frontends/ansor/dag/dag_reader.h"
#include "data/frontends/ansor/records/record.h"

/// Schedules replayed by TVM itself: the oracle for replay.
namespace foretime::testing {
using namespace data;

/// What TVM says of one iterator; a bound is its text.
struct GoldenIterator {
  std::string name, minimum, extent, kind, annotation;
  std::vector<int32_t> attached;
};

struct GoldenStage {
  std::string name, compute_at;
  bool input = false;
  int32_t attach_stage = -1, attach_iterator = -1;
  int64_t auto_unroll_max_step = 0, storage_offset = 0;
  std::vector<int64_t> shape;
  std::vector<GoldenIterator> iterators;
};

struct GoldenState {
  int64_t line = 0;  // 0-based, of the records
  std::string workload_key, printed, dag_text;
  ScheduleSteps steps;
  std::vector<GoldenStage> stages;
};

std::vector<GoldenState> read_golden_states(const std::filesystem::path& file);

}  // namespace foretime::testing
