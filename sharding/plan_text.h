#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharding/plan_report.h"
#include "sharding/step_time.h"

/// What `foretime plan` prints.
namespace foretime::sharding {

/// The plan for one number of ranks.
struct PlanView {
  int64_t groups_per_batch = 0;
  int64_t candidates_per_group = 0;
  ShardPlan plan;
  PlanReport report;
  std::optional<Prediction> prediction;
};

/// How texts are made for people: `verbose`, all columns in place of the three that decide; `width` of the terminal, 0:
/// as wide as it comes.
struct TextForm {
  bool verbose = false;
  size_t width = 0;
};

/// Training groups, parts, samples; one row for each number of ranks; what the columns mean; remarks.
std::string plan_text(const DatasetIndex& dataset, const std::vector<PlanView>& views, const TextForm& form);
/// The `count` training groups with the costliest samples.
std::string heaviest_text(const DatasetIndex& dataset, size_t count, const TextForm& form);
/// Which ranks train on and evaluate each part, one row a part.
std::string assignments_text(const DatasetIndex& dataset, const PlanView& view, const TextForm& form);
/// The predicted time of a step; one row for each number of ranks.
std::string prediction_text(const std::vector<PlanView>& views, const TextForm& form);
/// All of it; `assignments` where asked for.
std::string plan_json(const DatasetIndex& dataset, const std::vector<PlanView>& views, size_t heaviest,
                      bool assignments);

}  // namespace foretime::sharding
