#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "models/baselines/store_features/postfix_expression.h"

namespace foretime::models {

/// Counts the arithmetic of one execution of a store's right side, including indices and conditions, by
/// auto_scheduler's classes.
struct StoreOperations {
  int64_t float_add_subtract = 0, float_multiply = 0, float_divide_modulo = 0, float_compare = 0, float_math = 0,
          float_other = 0, integer_math = 0, integer_other = 0;
  IntegerOperations integer;  // includes all logic and selections, of floats too

  int64_t float_total() const {
    return float_add_subtract + float_multiply + float_divide_modulo + float_compare + float_math + float_other;
  }
};

/// Describes all accesses of a store to one memory.
struct BufferAccess {
  int32_t memory = 0;  // ComputeDag::memory
  bool read = false, written = false;
  uint32_t rank = 0;              // indices per access
  uint32_t first = 0, count = 0;  // range of accesses: `rank` forms each, from StoreValue::forms[first] on
};

/// Describes a store: the accesses and the arithmetic that remain of the stage's expression, with inlined stages, after
/// TVM's simplifier. Conditions and choices that loops decide are removed, and constant matrices (of Winograd's
/// transforms) count as 1, as in TVM's feature extraction.
struct StoreValue {
  StoreOperations operations;
  std::vector<BufferAccess> buffers;  // the written buffer, then the read ones in the order of evaluation
  std::vector<PostfixExpressions::Postfix> forms;
};

/// One access: its memory, and the position of its indices.
struct StoreLoad {
  int32_t memory = 0;
  uint32_t first = 0;
};

/// Computes the values of stores; reuses its memory.
class StoreValues {
 public:
  explicit StoreValues(PostfixExpressions& forms) : forms_(&forms) {}

  /// Overwrites `value`. Throws DataError if the stage's expression is unknown or has more than 100,000 operations.
  void find(data::LoopNest& nest, const data::NestStatements& statements, const data::NestNode& store,
            StoreValue& value);

 private:
  PostfixExpressions* forms_;
  std::vector<StoreLoad> loads_;
  std::vector<PostfixExpressions::Postfix> load_forms_;
};

}  // namespace foretime::models
