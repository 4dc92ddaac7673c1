#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/features/postfix_expression.h"
#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Arithmetic of one execution of a store's right side, indices and conditions included, by auto_scheduler's classes.
struct StoreOperations {
  int64_t float_add_subtract = 0, float_multiply = 0, float_divide_modulo = 0, float_compare = 0, float_math = 0,
          float_other = 0, integer_math = 0, integer_other = 0;
  IntegerOperations integer;  // logic and select stand here whatever they decide about

  int64_t float_total() const {
    return float_add_subtract + float_multiply + float_divide_modulo + float_compare + float_math + float_other;
  }
};

/// All accesses of a store to one memory.
struct BufferAccess {
  int32_t memory = 0;  // ComputeDag::memory
  bool read = false, written = false;
  uint32_t rank = 0;              // indices of one access
  uint32_t first = 0, count = 0;  // accesses: StoreValue::forms from first on, `rank` each
};

/// What a store does: the accesses and the arithmetic that TVM's simplifier leaves of the stage's expression, with the
/// stages inlined into it. Conditions and choices that loops decide are gone, constant matrices (of Winograd's
/// transforms) count as 1, as TVM's feature extraction takes them.
struct StoreValue {
  StoreOperations operations;
  std::vector<BufferAccess> buffers;  // the written one, then those read in the order of evaluation
  std::vector<PostfixExpressions::Postfix> forms;
};

/// One access: whose memory, and where its indices stand.
struct StoreLoad {
  int32_t memory = 0;
  uint32_t first = 0;
};

/// Finds the values of stores; keeps memory from store to store.
class StoreValues {
 public:
  explicit StoreValues(PostfixExpressions& forms) : forms_(&forms) {}

  /// Overwrites `value`. Throws DataError where the stage's expression is not known or has more than 100,000
  /// operations.
  void find(LoopNest& nest, const NestStatements& statements, const NestNode& store, StoreValue& value);

 private:
  PostfixExpressions* forms_;
  std::vector<StoreLoad> loads_;
  std::vector<PostfixExpressions::Postfix> load_forms_;
};

}  // namespace foretime::data
