#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "models/baselines/store_features/postfix_expression.h"

namespace foretime::models {

/// Counts the arithmetic of one execution of a store, with indices and conditions, by auto_scheduler's classes.
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
  int32_t memory = 0;  // number of the memory: ComputeDag::memory
  bool read = false, written = false;
  uint32_t rank = 0;              // number of indices of an access: dimensions of the memory
  uint32_t first = 0, count = 0;  // `count` accesses with `rank` forms each, from StoreValue::forms[first] on
};

/// Describes a store: the accesses and the arithmetic that remain of the stage's expression, with inlined stages, after
/// TVM's simplifier. Conditions whose value is known for all iterations are removed, and elements of constant matrices
/// (of Winograd's transforms) count as the number 1, as in TVM's feature extraction.
struct StoreValue {
  StoreOperations operations;
  std::vector<BufferAccess> buffers;               // the written buffer, then the read ones in the order of evaluation
  std::vector<PostfixExpressions::Postfix> forms;  // indices of all accesses; see BufferAccess::first
};

/// Describes one access.
struct StoreLoad {
  int32_t memory = 0;  // number of the memory: ComputeDag::memory
  uint32_t first = 0;  // position of its first index in StoreWalk::load_forms
};

/// Computes the StoreValue of stores; calls reuse the object's memory.
class StoreValues {
 public:
  explicit StoreValues(PostfixExpressions& forms) : forms_(&forms) {}

  /// Sets `value` to that of `store`, one of the statements of `nest`. Throws DataError for an unknown expression or
  /// combiner, and for an expression of more than 100,000 nodes, inlined stages included.
  void find(data::LoopNest& nest, const data::NestStatements& statements, const data::NestNode& store,
            StoreValue& value);

 private:
  PostfixExpressions* forms_;
  std::vector<StoreLoad> loads_;
  std::vector<PostfixExpressions::Postfix> load_forms_;
};

}  // namespace foretime::models
