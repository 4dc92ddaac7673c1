#include "inference/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "data/graphs/group.h"

namespace foretime::inference {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostOperations = 100'000;

template <configs::Choice T>
T choice(const Json& json, const std::string& key) {
  const auto word = json.at(key).get<std::string>();
  if (const auto found = configs::choice_named<T>(word)) return *found;
  throw BundleError("graph: {}: '{}', expected {}", key, word, fmt::join(configs::words_of<T>(), ", "));
}

Json field_json(Value value) { return to_string(value); }
Json field_json(const WeightRef& weight) { return weight.name; }
Json field_json(const MatrixRef& matrix) { return to_string(matrix); }
template <class T>
Json field_json(const T& plain) {
  if constexpr (configs::Choice<T>) return configs::word_of(plain);
  else return plain;
}
template <class T>
Json field_json(const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& each : list) json.push_back(field_json(each));
  return json;
}

Json fields_of(const auto& operation) {
  Json json = Json::object();
  visit_fields(operation, [&](const std::string& name, const auto& field) { json[name] = field_json(field); });
  return json;
}

/// Fields of an operation that are not what they are by default.
Json to_json(const Node& node, size_t place) {
  const auto [fields, defaults] =
      std::visit([](const auto& o) { return std::pair(fields_of(o), fields_of(std::remove_cvref_t<decltype(o)>{})); },
                 node.operation);
  Json json = fields;
  for (const auto& [name, value] : defaults.items())
    if (json[name] == value) json.erase(name);
  json["op"] = name_of(node.operation);
  json["result"] = to_string(value_of(place));
  return json;
}

void read_field(const Json& json, Value& value) { value = parse_value(json.get<std::string>()); }
void read_field(const Json& json, WeightRef& weight) { weight.name = json.get<std::string>(); }
void read_field(const Json& json, MatrixRef& matrix) { matrix = parse_matrix(json.get<std::string>()); }
void read_field(const Json& json, double& number) {
  number = json.get<double>();
  if (!std::isfinite(number)) throw BundleError("graph: found a number that is not finite");
}
template <class T>
void read_field(const Json& json, T& plain) {
  plain = json.get<T>();
}
template <class T>
void read_field(const Json& json, std::vector<T>& list) {
  list.clear();
  for (const auto& each : json) read_field(each, list.emplace_back());
}

template <size_t... I>
Operation parse_fields(const Json& json, const std::string& name, std::index_sequence<I...>) {
  Operation operation;
  size_t read = 2;  // op and result
  const auto parse = [&]<class Op>(Op*) {
    if (name != Op::kName) return false;
    Op parsed;
    visit_fields(parsed, [&](const std::string& field_name, auto& field) {
      if (!json.contains(field_name)) return;
      ++read;
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (configs::Choice<Field>) field = choice<Field>(json, field_name);
      else read_field(json.at(field_name), field);
    });
    operation = std::move(parsed);
    return true;
  };
  if (!(parse(static_cast<std::variant_alternative_t<I, Operation>*>(nullptr)) || ...))
    throw BundleError("graph: found operation '{:.40}', which does not exist", name);
  if (read != json.size()) throw BundleError("graph: operation {}: found a field that it does not have", name);
  return operation;
}

std::vector<Node> parse_list(const Json& json, const char* name) {
  std::vector<Node> nodes;
  if (json.size() > kMostOperations)
    throw BundleError("graph: {}: {} operations, expected at most {}", name, json.size(), kMostOperations);
  for (const auto& each : json) {
    nodes.push_back({parse_fields(each, each.at("op").get<std::string>(),
                                  std::make_index_sequence<std::variant_size_v<Operation>>())});
    const auto expected = to_string(value_of(nodes.size() - 1));
    if (const auto result = each.at("result").get<std::string>(); result != expected)
      throw BundleError("graph: {}: result '{:.40}', expected {}", name, result, expected);
  }
  return nodes;
}

Json to_json(const plans::PlanRequest& request) {
  Json relations = Json::array();
  for (const auto& relation : request.relations)
    relations.push_back({{"direction", configs::word_of(relation.direction)},
                         {"norm", configs::word_of(relation.norm)},
                         {"self_loop", relation.self_loop}});
  return {{"layers", request.layers},
          {"relations", relations},
          {"tile_join", configs::word_of(request.tile_join)},
          {"sharing", configs::word_of(request.sharing)},
          {"tied", request.tied},
          {"collections", request.collections}};
}

plans::PlanRequest parse_request(const Json& json) {
  constexpr int64_t kMostLayers = 1000;
  plans::PlanRequest request;
  request.layers = json.at("layers");
  if (request.layers < 0 || request.layers > kMostLayers)
    throw BundleError("graph: layers: {}, expected 0 to {}", request.layers, kMostLayers);
  for (const auto& relation : json.at("relations")) {
    request.relations.push_back({choice<plans::Direction>(relation, "direction"),
                                 choice<plans::EdgeNorm>(relation, "norm"), relation.at("self_loop")});
    const auto& last = request.relations.back();
    if (last.norm == plans::EdgeNorm::laplacian_of_two && (last.direction != plans::Direction::both || last.self_loop))
      throw BundleError(
          "graph: relations: a Laplacian of one direction or with self loops, "
          "expected both directions and no self loops");
  }
  if (request.relations.size() > 100)
    throw BundleError("graph: relations: {}, expected at most 100", request.relations.size());
  request.tile_join = choice<plans::TileJoin>(json, "tile_join");
  request.sharing = choice<plans::Sharing>(json, "sharing");
  request.tied = json.at("tied");
  request.collections = json.at("collections");
  return request;
}

int64_t check_list(const std::vector<Node>& nodes, Value last, Widths& widths) {
  for (size_t i = 0; i < nodes.size(); ++i)
    std::visit(
        [&](const auto& o) {
          widths.begin(o.kName);
          widths.add(o.columns(widths));
        },
        nodes[i].operation);
  widths.begin("result");
  return widths.of(last);
}

/// Nodes that `last` needs, by place.
std::vector<bool> needed(const std::vector<Node>& nodes, Value last) {
  std::vector<bool> needed(nodes.size(), false);
  const auto need = [&](Value value) {
    if (value.id >= kInputs) needed[value.id - kInputs] = true;
  };
  need(last);
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    visit_all<Value>(nodes[i].operation, need);
    visit_all<MatrixRef>(nodes[i].operation, [&](const MatrixRef& matrix) {
      if (matrix.kind >= MatrixRef::Kind::adjacency && matrix.at >= 0) need({matrix.at});
    });
  }
  return needed;
}

std::vector<Node> without_training(const std::vector<Node>& nodes, Value& last) {
  const auto keep = needed(nodes, last);
  std::vector<Value> moved(nodes.size() + kInputs);  // new value of each old value
  for (int32_t i = 0; i < kInputs; ++i) moved[i] = {i};
  std::vector<Node> left;
  const auto move = [&](Value& value) {
    if (value.defined()) value = moved[value.id];
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!keep[i]) continue;
    Value& here = moved[i + kInputs];
    if (const auto* dropout = std::get_if<Dropout>(&nodes[i].operation)) {
      here = moved[dropout->x.id];
      continue;
    }
    Node node = nodes[i];
    visit_all<Value>(node.operation, move);
    visit_all<MatrixRef>(node.operation, [&](MatrixRef& matrix) {
      matrix.drop_set = -1;
      if (matrix.kind >= MatrixRef::Kind::adjacency && matrix.at >= 0) matrix.at = moved[matrix.at].id;
    });
    left.push_back(std::move(node));
    here = value_of(left.size() - 1);
  }
  move(last);
  return left;
}

template <class T>
std::vector<T> all_of(const Operation& operation) {
  std::vector<T> all;
  visit_all<T>(operation, [&](const T& each) { all.push_back(each); });
  return all;
}

}  // namespace

const char* name_of(const Operation& operation) {
  return std::visit([](const auto& o) { return o.kName; }, operation);
}
std::vector<Value> inputs_of(const Operation& operation) { return all_of<Value>(operation); }
std::vector<MatrixRef> matrices_of(const Operation& operation) { return all_of<MatrixRef>(operation); }
std::vector<WeightRef> weights_of(const Operation& operation) { return all_of<WeightRef>(operation); }

bool compares_candidates(const Graph& graph) {
  return std::any_of(graph.score.begin(), graph.score.end(), [](const Node& node) {
    return std::holds_alternative<Standardize>(node.operation) ||
           std::holds_alternative<CandidateSoftmax>(node.operation);
  });
}

Graph without_training(const Graph& graph) {
  Graph result = graph;
  result.embed = without_training(graph.embed, result.embedded);
  result.score = without_training(graph.score, result.scores);
  return result;
}

Json to_json(const Graph& graph) {
  const auto list = [](const std::vector<Node>& nodes) {
    Json json = Json::array();
    for (size_t i = 0; i < nodes.size(); ++i) json.push_back(to_json(nodes[i], i));
    return json;
  };
  return {{"request", to_json(graph.request)},
          {"statements", graph.statements},
          {"embed", list(graph.embed)},
          {"embedded", to_string(graph.embedded)},
          {"embedded_columns", graph.embedded_columns},
          {"score", list(graph.score)},
          {"scores", to_string(graph.scores)}};
}

int64_t check_graph(const Graph& graph, const WeightShapes& weights, int64_t feature_count) {
  Widths embed("embed", /*groups=*/false, weights);
  embed.provide(kNodeFeatures, feature_count);
  embed.provide(kLayoutRows, data::kLayoutFeatures);
  embed.provide(kCandidateFeatures, data::kTileFeatures);
  const int64_t width = check_list(graph.embed, graph.embedded, embed);
  if (width != graph.embedded_columns)
    throw BundleError("graph: embed: {} columns, expected {}", width, graph.embedded_columns);
  Widths score("score", /*groups=*/true, weights);
  score.provide(kEmbedded, width);
  const int64_t scores = check_list(graph.score, graph.scores, score);
  if (scores != 1 && scores != 2) throw BundleError("graph: score: {} columns, expected 1 or 2", scores);
  return scores;
}

Graph parse_graph(const Json& json, const WeightShapes& weights, int64_t feature_count) {
  Graph graph;
  try {
    graph.request = parse_request(json.at("request"));
    graph.statements = json.at("statements");
    graph.embed = parse_list(json.at("embed"), "embed");
    graph.embedded = parse_value(json.at("embedded").get<std::string>());
    graph.embedded_columns = json.at("embedded_columns");
    graph.score = parse_list(json.at("score"), "score");
    graph.scores = parse_value(json.at("scores").get<std::string>());
  } catch (const Json::exception& error) {
    throw BundleError("graph: {}", error.what());
  }
  check_graph(graph, weights, feature_count);
  return graph;
}

}  // namespace foretime::inference
