// estimate_flops: arithmetic operations of a DAG, as TVM's FlopEstimator counts them
// (src/auto_scheduler/compute_dag.cc).
#include <algorithm>

#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

/// Lists the type codes of TVM. A number without a type takes the type of its neighbour.
enum class Code : uint8_t { real, integer, natural, any };

Code code_of(std::string_view type) {
  if (type.starts_with("uint") || type == "bool") return Code::natural;
  return type.starts_with("int") ? Code::integer : Code::real;
}

struct Count {
  double operations = 0.0;
  Code code = Code::any;
};

/// Operations with an operand of the code `counted`: indices of loads are none.
class Counter {
 public:
  Counter(const ComputeDag& dag, Code counted) : dag_(dag), counted_(counted) {}

  Count of(int32_t root) const {
    const ExpressionTree& tree = dag_.expressions;
    const auto& node = tree.node(root);
    const auto children = tree.children(root);
    switch (node.kind) {
      case Kind::integer: return {};
      case Kind::real: return {0.0, Code::real};
      case Kind::variable: return {0.0, Code::integer};
      case Kind::load: {
        const auto& types = dag_.stages[node.target].types;
        return {0.0, code_of(types[std::min(types.size() - 1, tree.output(root))])};
      }
      case Kind::cast: return {of(children[0]).operations, code_of(tree.name(root))};
      case Kind::select: {
        const Count yes = of(children[1]), no = of(children[2]);
        return {of(children[0]).operations + std::max(yes.operations, no.operations), joined(yes.code, no.code)};
      }
      case Kind::logical_not:
        return {of(children[0]).operations + (counted_ == Code::natural ? 1.0 : 0.0), Code::natural};
      case Kind::call:
      case Kind::text: {
        Count sum;
        for (size_t i = 0; i < children.size(); ++i) {
          const Count one = of(children[i]);
          sum.operations += one.operations;
          if (i + 1 == children.size()) sum.code = one.code;  // type of the chosen value
        }
        return sum;
      }
      default: {
        const Count left = of(children[0]), right = of(children[1]);
        const bool counts = left.code == counted_ || right.code == counted_;
        return {left.operations + right.operations + (counts ? 1.0 : 0.0),
                is_condition(node.kind) ? Code::natural : joined(left.code, right.code)};
      }
    }
  }

 private:
  static Code joined(Code a, Code b) { return a == Code::any ? b : a; }

  const ComputeDag& dag_;
  Code counted_;
};

}  // namespace

double estimate_flops(const ComputeDag& dag) {
  double all = 0.0;
  for (const DagStage& stage : dag.stages) {
    if (stage.input) continue;
    const Counter counter(dag, code_of(stage.types.front()));
    double each = 0.0;
    for (const int32_t body : stage.bodies) each += counter.of(body).operations;
    if (!stage.combiner.empty()) {
      if (stage.combine.empty()) each += 1.0;
      // The variables of a combiner are of the types of its tensors; none of them is an index.
      for (const int32_t result : stage.combine) {
        const Kind kind = dag.expressions.node(result).kind;
        each +=
            kind == Kind::add || kind == Kind::maximum || kind == Kind::minimum || kind == Kind::multiply ? 1.0 : 0.0;
      }
    }
    for (size_t a = 0; a < stage.axis_count(); ++a) each *= std::max<int64_t>(1, stage.axis(a).extent);
    all += each;
  }
  return all;
}

}  // namespace foretime::data
