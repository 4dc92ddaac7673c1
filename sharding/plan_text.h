#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sharding/plan_report.h"

/// The output of `foretime plan`.
namespace foretime::sharding {

/// Holds the plan for one number of ranks.
struct PlanView {
  int64_t groups_per_batch = 0;
  int64_t candidates_per_group = 0;
  ShardPlan plan;
  PlanReport report;
};

/// Describes the form of texts. `verbose` shows all columns instead of the three most important ones; `width` is the
/// width of the terminal, 0 means unlimited.
struct TextForm {
  bool verbose = false;
  size_t width = 0;
};

/// Returns the training groups, parts and samples, one row for each number of ranks, explanations of the columns, and
/// remarks.
std::string plan_text(const DatasetIndex& dataset, const std::vector<PlanView>& views, const TextForm& form);
/// Returns the `count` training groups with the most expensive samples.
std::string heaviest_text(const DatasetIndex& dataset, size_t count, const TextForm& form);
/// Returns the ranks that train on and evaluate each part, one row a part.
std::string assignments_text(const DatasetIndex& dataset, const PlanView& view, const TextForm& form);
/// Returns all of these as JSON; with `assignments` also the ranks of each part.
std::string plan_json(const DatasetIndex& dataset, const std::vector<PlanView>& views, size_t heaviest,
                      bool assignments);

}  // namespace foretime::sharding
