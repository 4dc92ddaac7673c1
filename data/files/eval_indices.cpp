#include "data/files/eval_indices.h"

#include <fstream>

#include <nlohmann/json.hpp>

namespace foretime::data {
namespace {

EvalIndices read_file(const std::filesystem::path& file) {
  const std::string origin = file.string();
  std::ifstream stream(file);
  if (!stream) throw DataError("{}: cannot be read, expected evaluation indices (JSON)", origin);
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(stream);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: {}, expected {{\"graph\": [candidate ids]}}", origin, error.what());
  }
  if (!json.is_object() || json.empty())
    throw DataError("{}: {}, expected an object with graphs' names", origin, json.type_name());
  EvalIndices indices;
  for (const auto& [name, ids] : json.items()) {
    if (!ids.is_array() || ids.empty())
      throw DataError("{}: graph {}: {}, expected a list of candidate ids", origin, name,
                      ids.is_array() ? "an empty list" : ids.type_name());
    for (const auto& id : ids) {
      if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX) ||
          id.get<int64_t>() < 0)
        throw DataError("{}: graph {}: {}, expected a candidate id", origin, name, id.dump());
      indices[name].push_back(id.get<int64_t>());
    }
  }
  return indices;
}

}  // namespace

EvalIndices read_eval_indices(const std::filesystem::path& file) {
  if (!std::filesystem::is_directory(file)) return read_file(file);
  EvalIndices all;
  for (const auto* name : {"xla_random", "xla_default", "nlp_random", "nlp_default"}) {
    const auto part = file / (std::string(name) + ".json");
    if (!std::filesystem::exists(part)) continue;
    auto collection = "layout:" + std::string(name);
    collection[collection.find('_')] = ':';
    for (auto& [graph, ids] : read_file(part))
      all.emplace(qualified_name(collection_named(collection), graph), std::move(ids));
  }
  if (all.empty()) throw DataError("{}: no evaluation indices, expected xla_default.json or its like", file.string());
  return all;
}

const std::vector<int64_t>* find_indices(const EvalIndices& indices, Collection collection, const std::string& name) {
  auto found = indices.find(qualified_name(collection, name));
  if (found == indices.end()) found = indices.find(plain_name(name));
  return found == indices.end() ? nullptr : &found->second;
}

}  // namespace foretime::data
