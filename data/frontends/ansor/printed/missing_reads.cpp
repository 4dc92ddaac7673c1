#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "data/frontends/ansor/printed/printed_line.h"
#include "data/frontends/ansor/printed/workload_facts.h"

namespace foretime::data {
namespace {

using StageReads = decltype(WorkloadFacts::reads);

/// Tries which of several stages of one name each load reads.
struct ReadSearch {
  std::span<const PrintedStage> stages;
  const PrintedHints& hints;
  size_t outputs;
  StageReads reads = {};
  std::vector<std::pair<size_t, size_t>> open = {};  // loads, as stage and number, that may read several stages
  std::vector<int> readers = {};                     // of each stage, by what is chosen so far
  std::optional<StageReads> found = {};
  size_t tried = 0;

  /// Stages of the name that a load says; the one that the user says, where there is a hint.
  std::vector<size_t> may_read(size_t stage, size_t load) const {
    const auto& may = stages[stage].loads[load].stages;
    const auto hint = hints.reads.find({stage, stages[stage].name_of(load)});
    if (hint == hints.reads.end()) return may;
    if (std::ranges::find(may, hint->second) == may.end())
      throw DataError("# {}.{}={}: expected one of {}", stage, stages[stage].name_of(load), hint->second,
                      fmt::join(may, ", "));
    return {hint->second};
  }

  StageReads run() {
    readers.assign(stages.size(), 0);
    for (size_t s = 0; s < stages.size(); ++s) {
      reads.emplace_back(stages[s].loads.size());
      for (size_t l = 0; l < stages[s].loads.size(); ++l) {
        const auto may = may_read(s, l);
        if (may.size() > 1) {
          open.emplace_back(s, l);
        } else {
          reads[s][l] = may.front();
          ++readers[may.front()];
        }
      }
    }
    choose(0);
    if (!found) throw DataError("{} outputs stand in the key, and other stages than these are read by none", outputs);
    return *found;
  }

  size_t unread() const { return std::ranges::count(readers, 0); }

  /// Tries the stages of the loads from `at` on.
  void choose(size_t at) {
    if (unread() > outputs + (open.size() - at)) return;  // each choice reads one more at most
    if (at == open.size()) {
      if (unread() != outputs || readers.back() != 0) return;
      if (found && *found != reads) {
        for (size_t i = 0; i < open.size(); ++i) {
          const auto [s, l] = open[i];
          if ((*found)[s][l] != reads[s][l])
            throw DataError(
                "stage {0} ({1}) reads {2}, and of this name are stages {3}; write above it which, as in # "
                "{0}.{2}={4}, or {5}",
                s, stages[s].name, stages[s].name_of(l), fmt::join(may_read(s, l), " and "), may_read(s, l).back(),
                kWholeTable);
        }
      }
      found = reads;
      return;
    }
    if (++tried > 100'000) throw DataError("too many stages share their names; {}", kWholeTable);
    const auto [s, l] = open[at];
    for (const size_t source : may_read(s, l)) {
      reads[s][l] = source;
      ++readers[source];
      choose(at + 1);
      --readers[source];
    }
  }
};

}  // namespace

void find_reads(std::span<const PrintedStage> stages, const PrintedHints& hints, size_t outputs, WorkloadFacts& facts) {
  facts.reads = ReadSearch{.stages = stages, .hints = hints, .outputs = outputs}.run();
  std::vector<bool> read(stages.size(), false);
  for (const auto& of_stage : facts.reads) {
    for (const size_t source : of_stage) read[source] = true;
  }
  for (size_t s = 0; s < stages.size(); ++s) facts.output.push_back(!read[s]);
}

}  // namespace foretime::data
