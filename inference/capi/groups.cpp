#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/dataset/group_files.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "inference/capi/internal.h"

struct foretime_files {
  std::vector<foretime::data::GroupHeader> headers;
  std::vector<std::string> paths;
};

struct foretime_group {
  foretime::data::Group group;
  std::string description;
  std::vector<foretime_array> arrays;
};

namespace {

namespace data = foretime::data;
using namespace foretime::capi;

data::CandidateKind kind_named(std::string_view format) {
  for (const auto kind : {data::CandidateKind::layout, data::CandidateKind::tile, data::CandidateKind::program})
    if (format == data::kind_name(kind)) return kind;
  throw Invalid(fmt::format("format: \"{}\", expected layout, tile or programs", format));
}

const char* unit_name(data::RuntimeUnit unit) {
  if (unit == data::RuntimeUnit::seconds) return "seconds";
  return unit == data::RuntimeUnit::normalized ? "normalized" : "nanoseconds";
}

template <class T>
constexpr const char* kTypeName = nullptr;
template <>
constexpr const char* kTypeName<int8_t> = "int8";
template <>
constexpr const char* kTypeName<uint8_t> = "uint8";
template <>
constexpr const char* kTypeName<int32_t> = "int32";
template <>
constexpr const char* kTypeName<int64_t> = "int64";
template <>
constexpr const char* kTypeName<float> = "float32";
template <>
constexpr const char* kTypeName<double> = "float64";

/// `columns` 0: an array of one dimension.
template <class Values>
void add(std::vector<foretime_array>& arrays, const char* name, const Values& values, int64_t columns = 0) {
  const auto count = std::ssize(values);
  if (count == 0) return;
  using T = std::remove_cvref_t<decltype(*values.data())>;
  foretime_array array{.size = sizeof(foretime_array),
                       .name = name,
                       .type = kTypeName<T>,
                       .dimensions = columns > 0 ? 2 : 1,
                       .shape = {columns > 0 ? count / columns : count, columns > 0 ? columns : 1, 1},
                       .data = values.data()};
  arrays.push_back(array);
}

void list_arrays(foretime_group& group) {
  const auto& from = group.group;
  auto& arrays = group.arrays;
  add(arrays, "graph_ptr", from.graphs.graph_ptr);
  add(arrays, "edge_ptr", from.graphs.edge_ptr);
  add(arrays, "node_features", from.graphs.node_features, from.graphs.feature_count);
  add(arrays, "node_types", from.graphs.node_types);
  add(arrays, "edge_consumer", from.graphs.edge_target);
  add(arrays, "edge_producer", from.graphs.edge_source);
  add(arrays, "node_splits", from.node_splits);
  add(arrays, "configurable_nodes", from.layout.nodes);
  add(arrays, "layout_row_ptr", from.layout.row_ptr);
  add(arrays, "layout_rows", from.layout.rows, data::kLayoutFeatures);
  add(arrays, "layout_codes", from.layout.codes, from.layout.configurable());
  add(arrays, "tile_features", from.tile_features, data::kTileFeatures);
  add(arrays, "runtimes", from.runtimes);
  add(arrays, "flops", from.flops);
}

bool is_place(int64_t place, int64_t count) { return place >= 0 && place < count; }

}  // namespace

foretime_status foretime_files_open(const char* const* patterns, int64_t count, const char* format,
                                    const foretime_model* model, foretime_files** files) {
  return guarded([&] {
    expect_pointer(files, "files");
    expect_range(count, 1, 1 << 24, "count");
    expect_pointer(patterns, "patterns");
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) {
      expect_pointer(patterns[i], "patterns");
      names.emplace_back(patterns[i]);
    }
    if (model == nullptr) expect_pointer(format, "format");
    if (model != nullptr && format != nullptr && kind_named(format) != model->model->spec().kind)
      throw foretime::inference::WrongKind(
          fmt::format("format: found {}, but the model scores {}", format, data::kind_name(model->model->spec().kind)));
    auto result = std::make_unique<foretime_files>();
    result->headers = model != nullptr ? foretime::inference::list_groups(*model->model, names)
                                       : data::list_groups(names, ".", kind_named(format));
    for (const auto& header : result->headers) result->paths.push_back(header.file.string());
    *files = result.release();
  });
}

void foretime_files_close(foretime_files* files) { delete files; }

int64_t foretime_files_count(const foretime_files* files) { return files == nullptr ? 0 : std::ssize(files->headers); }

const char* foretime_files_name(const foretime_files* files, int64_t place) {
  return is_place(place, foretime_files_count(files)) ? files->headers[place].name.c_str() : nullptr;
}

const char* foretime_files_path(const foretime_files* files, int64_t place) {
  return is_place(place, foretime_files_count(files)) ? files->paths[place].c_str() : nullptr;
}

foretime_status foretime_group_open(const foretime_files* files, int64_t place, foretime_group** group) {
  return guarded([&] {
    expect_pointer(files, "files");
    expect_pointer(group, "group");
    expect_range(place, 0, foretime_files_count(files) - 1, "place");
    auto result = std::make_unique<foretime_group>();
    result->group = data::load_group(files->headers[place]);
    list_arrays(*result);
    const auto& from = result->group;
    result->description = nlohmann::json{
        {"name", from.name},
        {"kind", data::kind_name(from.kind)},
        {"collection", data::to_string(from.collection)},
        {"unit", unit_name(from.unit)},
        {"candidates", from.candidates},
        {"ids",
         from.candidate_ids}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    *group = result.release();
  });
}

void foretime_group_close(foretime_group* group) { delete group; }

int64_t foretime_group_candidates(const foretime_group* group) {
  return group == nullptr ? 0 : group->group.candidates;
}

const char* foretime_group_describe(const foretime_group* group, size_t* size) {
  if (size != nullptr) *size = group == nullptr ? 0 : group->description.size();
  return group == nullptr ? "" : group->description.c_str();
}

int64_t foretime_group_arrays(const foretime_group* group) { return group == nullptr ? 0 : std::ssize(group->arrays); }

foretime_status foretime_group_array(const foretime_group* group, int64_t place, foretime_array* array) {
  return guarded([&] {
    expect_pointer(group, "group");
    expect_pointer(array, "array");
    expect_range(place, 0, foretime_group_arrays(group) - 1, "place");
    const size_t size = array->size;
    if (size != sizeof(foretime_array))
      throw Invalid(
          fmt::format("array: its size is {}, expected {}: sizeof of the structure", size, sizeof(foretime_array)));
    *array = group->arrays[place];
    array->size = size;
  });
}

foretime_status foretime_score_group(const foretime_model* model, const foretime_group* group, float* scores,
                                     float* failures) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_pointer(group, "group");
    expect_pointer(scores, "scores");
    if (failures != nullptr && foretime_predicts_failures(model) == 0)
      throw foretime::inference::WrongKind(
          "the model does not predict chances of failure: it was trained without model.failure_output");
    std::vector<int64_t> all(group->group.candidates);
    std::iota(all.begin(), all.end(), 0);
    std::vector<float> chances;
    const auto result = model->model->score_group(group->group, all, failures != nullptr ? &chances : nullptr);
    std::copy(result.begin(), result.end(), scores);
    if (failures != nullptr) std::copy(chances.begin(), chances.end(), failures);
  });
}

foretime_status foretime_graph_open_group(const foretime_model* model, const foretime_group* group,
                                          foretime_graph** graph) {
  return guarded([&] {
    expect_pointer(model, "model");
    expect_pointer(group, "group");
    expect_pointer(graph, "graph");
    *graph = new foretime_graph{foretime::inference::GraphScorer(model->model, group->group)};
  });
}
