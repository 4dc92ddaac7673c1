#include "inference/graph/form.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "data/graphs/group.h"
#include "inference/error.h"

namespace foretime::inference {
namespace {

using Json = nlohmann::json;

constexpr int64_t kWidest = 1 << 20;  // columns of a value: far more than any model has
constexpr size_t kMostOperations = 100'000;

constexpr const char* kDirections[] = {"in", "out", "both"};
constexpr const char* kNorms[] = {"sum", "mean", "symmetric", "sender", "laplacian", "laplacian_of_two"};
constexpr const char* kJoins[] = {"early", "late"};
constexpr const char* kSharings[] = {"none", "invariant", "states"};

template <class Enum, size_t N>
Enum enumerated(const Json& json, const char* key, const char* const (&names)[N]) {
  const auto text = json.at(key).get<std::string>();
  for (size_t i = 0; i < N; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
  }
  throw BundleError(fmt::format("form: {}: '{}', expected {}", key, text, fmt::join(names, ", ")));
}

Json to_json(const Operation& o) {
  Json json = {{"op", o.op}, {"result", o.result}};
  if (!o.inputs.empty()) json["inputs"] = o.inputs;
  if (!o.matrices.empty()) json["matrices"] = o.matrices;
  if (!o.weights.empty()) json["weights"] = o.weights;
  if (!o.mode.empty()) json["mode"] = o.mode;
  if (!o.numbers.empty()) json["numbers"] = o.numbers;
  if (!o.columns.empty()) json["columns"] = o.columns;
  return json;
}

Operation parse_operation(const Json& json) {
  Operation o{.op = json.at("op"), .result = json.at("result")};
  o.inputs = json.value("inputs", o.inputs);
  o.matrices = json.value("matrices", o.matrices);
  o.weights = json.value("weights", o.weights);
  o.mode = json.value("mode", o.mode);
  o.numbers = json.value("numbers", o.numbers);
  o.columns = json.value("columns", o.columns);
  return o;
}

Json to_json(const plans::PlanRequest& request) {
  Json relations = Json::array();
  for (const auto& relation : request.relations) {
    relations.push_back({{"direction", kDirections[static_cast<size_t>(relation.direction)]},
                         {"norm", kNorms[static_cast<size_t>(relation.norm)]},
                         {"self_loop", relation.self_loop}});
  }
  return {{"layers", request.layers},
          {"relations", relations},
          {"tile_join", kJoins[static_cast<size_t>(request.tile_join)]},
          {"sharing", kSharings[static_cast<size_t>(request.sharing)]},
          {"tied", request.tied},
          {"collections", request.collections}};
}

plans::PlanRequest parse_request(const Json& json) {
  constexpr int64_t kMostLayers = 1000;
  plans::PlanRequest request;
  request.layers = json.at("layers");
  if (request.layers < 0 || request.layers > kMostLayers)
    throw BundleError(fmt::format("form: layers: {}, expected 0 to {}", request.layers, kMostLayers));
  for (const auto& relation : json.at("relations")) {
    request.relations.push_back({enumerated<plans::Direction>(relation, "direction", kDirections),
                                 enumerated<plans::EdgeNorm>(relation, "norm", kNorms), relation.at("self_loop")});
    const auto& last = request.relations.back();
    const bool laplacian = last.norm == plans::EdgeNorm::laplacian || last.norm == plans::EdgeNorm::laplacian_of_two;
    if (laplacian && (last.direction != plans::Direction::both || last.self_loop))
      throw BundleError("form: relations: a Laplacian of one direction or with self loops, expected both and none");
  }
  if (request.relations.size() > 100)
    throw BundleError(fmt::format("form: relations: {}, expected at most 100", request.relations.size()));
  request.tile_join = enumerated<plans::TileJoin>(json, "tile_join", kJoins);
  request.sharing = enumerated<plans::Sharing>(json, "sharing", kSharings);
  request.tied = json.at("tied");
  request.collections = json.at("collections");
  return request;
}

/// Follows a list and knows the number of columns of each value.
class Checker {
 public:
  Checker(const char* list, const WeightShapes& weights, bool groups)
      : list_(list), weights_(weights), groups_(groups) {}

  void provide(const std::string& name, int64_t columns) { columns_[name] = columns; }

  int64_t check(const std::vector<Operation>& operations, const std::string& last) {
    if (operations.size() > kMostOperations)
      throw BundleError(
          fmt::format("form: {}: {} operations, expected at most {}", list_, operations.size(), kMostOperations));
    for (size_t i = 0; i < operations.size(); ++i) {
      at_ = i;
      operation_ = &operations[i];
      // Names stand in generated sources.
      const auto named = [](const std::string& name, const char* more) {
        return std::all_of(name.begin(), name.end(), [&](char c) {
          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || (*more != 0 && c == *more);
        });
      };
      const auto& result = operations[i].result;
      if (!named(result, "") || result.empty() || (result[0] >= '0' && result[0] <= '9'))
        fail("result: expected a name of small letters, digits and _");
      for (const auto& matrix : operations[i].matrices) {
        if (!named(matrix, ".")) fail("matrix: expected a name of small letters, digits, _ and .");
        if (groups_ && !matrix.empty()) fail("a matrix, which only operations of embed have");
      }
      const int64_t columns = check(operations[i]);
      if (columns < 1 || columns > kWidest) fail(fmt::format("{} columns, expected 1 to {}", columns, kWidest));
      if (!columns_.emplace(result, columns).second) fail(fmt::format("result '{}': made before", result));
    }
    const auto found = columns_.find(last);
    if (found == columns_.end()) throw BundleError(fmt::format("form: {}: nothing makes its result '{}'", list_, last));
    return found->second;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BundleError(fmt::format("form: {} operation {} ({}): {}", list_, at_, operation_->op, what));
  }
  void expect(bool condition, const char* what, auto found, auto expected) const {
    if (!condition) fail(fmt::format("{}: {}, expected {}", what, found, expected));
  }
  void counts(const Operation& o, size_t inputs, size_t matrices, size_t weights) const {
    expect(o.inputs.size() == inputs, "inputs", o.inputs.size(), inputs);
    expect(o.matrices.size() == matrices, "matrices", o.matrices.size(), matrices);
    expect(o.weights.size() == weights, "weights", o.weights.size(), weights);
  }
  int64_t columns(const std::string& input) const {
    const auto found = columns_.find(input);
    if (found == columns_.end()) fail(fmt::format("input '{}': not made before", input));
    return found->second;
  }
  const std::vector<int64_t>& shape(const std::string& weight) const {
    const auto found = weights_.find(weight);
    if (found == weights_.end()) fail(fmt::format("weight '{}': not in the bundle", weight));
    return found->second;
  }
  void vector(const std::string& weight, int64_t length) const {
    const auto& found = shape(weight);
    if (found != std::vector{length})
      fail(fmt::format("weight '{}': shape [{}], expected [{}]", weight, fmt::join(found, ", "), length));
  }
  void optional_vector(const std::string& weight, int64_t length) const {
    if (!weight.empty()) vector(weight, length);
  }
  std::pair<int64_t, int64_t> table(const std::string& weight) const {
    const auto& found = shape(weight);
    if (found.size() != 2) fail(fmt::format("weight '{}': {} dimensions, expected 2", weight, found.size()));
    return {found[0], found[1]};
  }
  int64_t whole(const Operation& o, const char* name, int64_t otherwise, int64_t least, int64_t most) const {
    const double value = o.number(name, static_cast<double>(otherwise));
    if (!(value >= static_cast<double>(least) && value <= static_cast<double>(most)) || value != std::floor(value))
      fail(fmt::format("{}: {}, expected {} to {}", name, value, least, most));
    return static_cast<int64_t>(value);
  }
  [[noreturn]] void bad_mode(const Operation& o, const char* expected) const {
    fail(fmt::format("mode: '{}', expected {}", o.mode, expected));
  }

  int64_t check(const Operation& o) const {
    for (const auto& [name, value] : o.numbers) {
      if (!std::isfinite(value)) fail(fmt::format("{}: not a finite number", name));
    }
    if (o.op == "select") {
      counts(o, 1, 0, 0);
      const int64_t width = columns(o.inputs[0]);
      for (const int64_t column : o.columns) {
        if (column < 0 || column >= width) fail(fmt::format("column {}, expected 0 to {}", column, width - 1));
      }
      return static_cast<int64_t>(o.columns.size());
    }
    if (o.op == "transform") {
      counts(o, 1, 0, 2);
      const int64_t width = columns(o.inputs[0]);
      vector(o.weights[0], width);
      vector(o.weights[1], width);
      return width;
    }
    if (o.op == "codes") {
      counts(o, 1, 0, 1);
      const int64_t width = columns(o.inputs[0]), values = whole(o, "values", 0, 1, 256);
      whole(o, "least", 0, -128, 127);
      const auto [rows, each] = table(o.weights[0]);
      expect(rows == width * values, "rows of the weight", rows, width * values);
      return width * each;
    }
    if (o.op == "lookup") {
      counts(o, 0, 1, 1);
      return table(o.weights[0]).second;
    }
    if (o.op == "dense") {
      counts(o, 1, 0, 2);
      const auto [outputs, all] = table(o.weights[0]);
      const int64_t width = columns(o.inputs[0]), start = whole(o, "start", 0, 0, kWidest);
      expect(start + width <= all, "columns of the weight", all, fmt::format("at least {}", start + width));
      expect(all <= kWidest, "columns of the weight", all, fmt::format("at most {}", kWidest));
      optional_vector(o.weights[1], outputs);
      return outputs;
    }
    if (o.op == "csr_sum") {
      expect(!o.inputs.empty() && o.inputs.size() == o.matrices.size(), "matrices", o.matrices.size(), o.inputs.size());
      expect(o.weights.size() <= 1, "weights", o.weights.size(), 1);
      const int64_t width = columns(o.inputs[0]);
      for (const auto& input : o.inputs) expect(columns(input) == width, "columns of an input", columns(input), width);
      if (!o.weights.empty()) optional_vector(o.weights[0], width);
      return width;
    }
    if (o.op == "csr_max") {
      counts(o, 1, 1, 0);
      return columns(o.inputs[0]);
    }
    if (o.op == "attention") {
      counts(o, 3, 1, 0);
      const int64_t a = columns(o.inputs[0]), b = columns(o.inputs[1]), z = columns(o.inputs[2]);
      const int64_t heads = whole(o, "heads", 1, 1, kWidest);
      expect(a == b, "columns of the second input", b, a);
      expect(z % heads == 0, "columns left over by the heads", z % heads, 0);
      if (o.mode == "additive") {
        expect(a == heads, "columns of the first input", a, heads);
      } else if (o.mode == "dot") {
        expect(a % heads == 0, "columns left over by the heads", a % heads, 0);
      } else {
        bad_mode(o, "additive or dot");
      }
      return z;
    }
    if (o.op == "join") {
      expect(!o.inputs.empty(), "inputs", 0, "1 or more");
      int64_t width = 0;
      for (const auto& input : o.inputs) width = std::min(kWidest + 1, width + columns(input));
      return width;
    }
    if (o.op == "add") {
      expect(!o.inputs.empty(), "inputs", 0, "1 or more");
      expect(o.weights.size() <= 1, "weights", o.weights.size(), 1);
      const int64_t width = columns(o.inputs[0]);
      for (const auto& input : o.inputs) expect(columns(input) == width, "columns of an input", columns(input), width);
      if (!o.weights.empty()) optional_vector(o.weights[0], width);
      return width;
    }
    if (o.op == "multiply") {
      counts(o, 2, 0, 0);
      const int64_t width = columns(o.inputs[0]);
      expect(columns(o.inputs[1]) == width, "columns of the second input", columns(o.inputs[1]), width);
      return width;
    }
    if (o.op == "activate") {
      counts(o, 1, 0, 0);
      if (o.mode != "leaky" && o.mode != "tanh" && o.mode != "exp" && o.mode != "log")
        bad_mode(o, "leaky, tanh, exp or log");
      return columns(o.inputs[0]);
    }
    if (o.op == "normalize") {
      const int64_t width = columns(o.inputs.empty() ? std::string() : o.inputs[0]);
      if (o.mode != "layer" && o.mode != "affine" && o.mode != "l2") bad_mode(o, "layer, affine or l2");
      counts(o, 1, 0, o.mode == "l2" ? 0 : 2);
      for (const auto& weight : o.weights) vector(weight, width);
      return width;
    }
    if (o.op == "pool") {
      counts(o, 1, 1, 0);
      if (o.mode != "sum" && o.mode != "mean" && o.mode != "max") bad_mode(o, "sum, mean or max");
      return columns(o.inputs[0]);
    }
    if (o.op == "group" && groups_) {
      const int64_t width = columns(o.inputs.empty() ? std::string() : o.inputs[0]);
      if (o.mode == "standardize") {
        counts(o, 1, 0, 0);
        return width;
      }
      if (o.mode != "softmax") bad_mode(o, "standardize or softmax");
      counts(o, 1, 0, 1);
      vector(o.weights[0], 1);
      return 2 * width;
    }
    if (o.op == "top_nodes" && !groups_) {
      counts(o, 1, 2, 1);
      const int64_t width = columns(o.inputs[0]);
      vector(o.weights[0], width);
      const double ratio = o.number("ratio", 1.0), tie = o.number("tie", 0.0);
      expect(ratio > 0.0 && ratio <= 1.0, "ratio", ratio, "above 0, at most 1");
      expect(tie >= 0.0 && tie < 1.0, "tie", tie, "0 or more, below 1");
      return width;
    }
    fail("no such operation in this list");
  }

  const char* list_;
  const WeightShapes& weights_;
  bool groups_;
  size_t at_ = 0;
  const Operation* operation_ = nullptr;
  std::map<std::string, int64_t> columns_;
};

}  // namespace

double Operation::number(const std::string& name, double otherwise) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? otherwise : found->second;
}

Json to_json(const Form& form) {
  const auto list = [](const std::vector<Operation>& operations) {
    Json json = Json::array();
    for (const auto& operation : operations) json.push_back(to_json(operation));
    return json;
  };
  return {{"request", to_json(form.request)},
          {"statements", form.statements},
          {"embed", list(form.embed)},
          {"embedded", form.embedded},
          {"embedded_columns", form.embedded_columns},
          {"score", list(form.score)},
          {"scores", form.scores}};
}

void check_form(const Form& form, const WeightShapes& weights, int64_t feature_count) {
  Checker embed("embed", weights, /*groups=*/false);
  embed.provide(kNodeFeatures, feature_count);
  embed.provide(kLayoutRows, data::kLayoutFeatures);
  embed.provide(kCandidateFeatures, data::kTileFeatures);
  const int64_t width = embed.check(form.embed, form.embedded);
  if (width != form.embedded_columns)
    throw BundleError(fmt::format("form: embed: {} columns, expected {}", width, form.embedded_columns));
  Checker score("score", weights, /*groups=*/true);
  score.provide(kEmbedded, width);
  const int64_t scores = score.check(form.score, form.scores);
  if (scores != 1) throw BundleError(fmt::format("form: score: {} columns, expected 1", scores));
}

Form parse_form(const Json& json, const WeightShapes& weights, int64_t feature_count) {
  Form form;
  try {
    form.request = parse_request(json.at("request"));
    form.statements = json.at("statements");
    for (const auto& operation : json.at("embed")) form.embed.push_back(parse_operation(operation));
    form.embedded = json.at("embedded");
    form.embedded_columns = json.at("embedded_columns");
    for (const auto& operation : json.at("score")) form.score.push_back(parse_operation(operation));
    form.scores = json.at("scores");
  } catch (const Json::exception& error) {
    throw BundleError(fmt::format("form: {}", error.what()));
  }
  check_form(form, weights, feature_count);
  return form;
}

}  // namespace foretime::inference
