#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "inference/runtime/references.h"

namespace foretime::inference {

/// Writes operations as expressions of TorchScript. In methods, `m` is the dictionary of the plan's arrays.
class ScriptWriter {
 public:
  static std::string value(Value value) { return to_string(value); }
  /// The attribute that holds a weight.
  std::string weight(const WeightRef& weight);
  static std::string matrix(const MatrixRef& matrix) { return '"' + to_string(matrix) + '"'; }
  static std::string number(double value);
  /// `text` with negative numbers multiplied by `slope`; 1: `text` itself.
  std::string activated(const std::string& text, double slope);
  /// Adds methods to the module, once.
  void helper(const char* methods) { helpers_.insert(methods); }
  /// Methods rows_of, product and maxima over the rows of a sparse matrix.
  void sparse_helpers();

  Value result;  // of the operation that is being written

  std::string helpers() const;
  /// {attribute: name of the weight}.
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

 private:
  std::set<std::string_view> helpers_;
  std::map<std::string, std::string> attributes_;
};

}  // namespace foretime::inference
