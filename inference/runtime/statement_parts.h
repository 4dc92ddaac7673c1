#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/loops/loop_columns.h"
#include "plans/message_plan.h"

namespace foretime::inference {

/// Which nodes of a batch of loop graphs (data/program/loop_graph.h) belong to which statement, and which statements to
/// which program. All values of the matrices are 1.
struct StatementParts {
  std::vector<int32_t> statements, loops;  // their nodes
  plans::CsrMatrix loops_of;               // [statements, loops], from the innermost outwards
  plans::CsrMatrix innermost,
      second;  // [statements, loops]: the innermost loop, and the one around it, where there are
  std::array<plans::CsrMatrix, data::LoopColumns::kSlots>
      accesses;                    // [statements, nodes]: the first accesses, the store first
  plans::CsrMatrix statements_of;  // [candidates, statements]
};

/// Throws data::DataError where the plan's graphs are no loop graphs.
StatementParts statement_parts(const plans::MessagePlan& plan);

/// The same from its parts: node_features [nodes, feature_count], and the entries of [candidates, nodes].
StatementParts statement_parts(const float* node_features, int64_t nodes, int64_t feature_count,
                               std::span<const int64_t> row_ptr, std::span<const int32_t> columns);

}  // namespace foretime::inference
