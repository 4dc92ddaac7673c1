#pragma once

#include <span>

#include <nlohmann/json_fwd.hpp>

#include "data/frontends/ansor/printed/workload_facts.h"

/// Stages of printed DAGs as a table of DAGs has them.
namespace foretime::data {

/// Stage `stage`, all of whose facts are known.
nlohmann::ordered_json stage_json(std::span<const PrintedStage> stages, const WorkloadFacts& facts, size_t stage);

}  // namespace foretime::data
