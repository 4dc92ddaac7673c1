#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/dag/expression.h"

/// The stages of a printed DAG, as its text alone tells them.
namespace foretime::data {

struct PrintedStage {
  std::string name, combiner;
  bool input = false;
  std::vector<int64_t> shape;      // of an input
  std::vector<std::string> names;  // of axes, spatial ones first
  size_t spatial = 0;
  std::vector<std::string> bodies;
  ExpressionTree tree;
  std::vector<int32_t> roots;  // of bodies
  struct Load {
    int32_t node = 0;
    std::vector<int32_t> guards = {};  // conditions that hold where it is evaluated
    std::vector<size_t> stages = {};   // that it may read
    int64_t tensor = 0;
    bool index = false;  // its value is an index of another load
  };
  std::vector<Load> loads;
  size_t rank() const { return input ? shape.size() : spatial; }
  const std::string& name_of(size_t load) const { return tree.name(loads[load].node); }
};

/// Reads the lines of a DAG. Throws DataError, which names the line and what is wrong with it: no stage, a stage that
/// TVM cut or prints in part (reductions with several results), a name that nothing before has.
std::vector<PrintedStage> parse_stages(std::string_view text);

}  // namespace foretime::data
