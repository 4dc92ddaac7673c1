#include "data/frontends/ansor/printed/stage_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "data/frontends/ansor/printed/printed_line.h"

namespace foretime::data {
namespace {

using Json = nlohmann::ordered_json;

/// TVM's tag of the operators whose weights it may rearrange: the only ones that matter. Their names are those of
/// TVM's operator library.
std::string tag_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kTags[] = {{"conv2d_nhwc", "conv2d_nhwc"},
                                                                            {"Conv2dOutput", "conv2d_nhwc"},
                                                                            {"conv3d_ndhwc", "conv3d_ndhwc"},
                                                                            {"Conv3dOutput", "conv3d_ndhwc"},
                                                                            {"T_dense", "dense"},
                                                                            {"T_matmul", "dense"},
                                                                            {"T_batch_matmul", "batch_matmul"}};
  for (const auto& [start, tag] : kTags) {
    if (name.starts_with(start)) return std::string(tag);
  }
  return "";
}

}  // namespace

nlohmann::ordered_json stage_json(std::span<const PrintedStage> stages, const WorkloadFacts& facts, size_t s) {
  const auto& printed = stages[s];
  Json json = {{"id", s}, {"name", printed.name}, {"dtype", facts.types[s]}};
  if (printed.input) {
    json["shape"] = printed.shape;
    json["kind"] = std::string(kPrintedInput.substr(3, kPrintedInput.size() - 4));
    std::ranges::transform(json["kind"].get_ref<std::string&>(), json["kind"].get_ref<std::string&>().begin(),
                           [](char c) { return static_cast<char>(c - 'A' + 'a'); });
    return json;
  }
  auto axes = Json::array(), reduce = Json::array(), shape = Json::array();
  for (size_t a = 0; a < printed.names.size(); ++a) {
    (a < printed.spatial ? axes : reduce).push_back(Json::array({printed.names[a], facts.extents[s][a].value()}));
    if (a < printed.spatial) shape.push_back(facts.extents[s][a].value());
  }
  json["shape"] = std::move(shape);
  if (printed.bodies.size() > 1) {
    for (const int32_t root : printed.roots) json["dtypes"].push_back(type_of(stages, facts, s, root));
  }
  json["kind"] = "compute";
  json["axes"] = std::move(axes);
  json["reduce_axes"] = std::move(reduce);
  json["combiner"] = printed.combiner.empty() ? Json() : Json(printed.combiner);
  json["body"] = fmt::format("{}", fmt::join(printed.bodies, ", "));
  json["tag"] = tag_of(printed.name);
  auto& list = json["reads"] = Json::array();
  for (size_t l = 0; l < printed.loads.size(); ++l) {
    Json read = {{"op", facts.reads[s][l]}, {"name", stages[facts.reads[s][l]].name}};
    auto& indices = read["indices"] = Json::array();
    for (const int32_t index : printed.tree.children(printed.loads[l].node))
      indices.push_back(to_text(printed.tree, index));
    if (printed.loads[l].tensor > 0) read["output"] = printed.loads[l].tensor;
    list.push_back(std::move(read));
  }
  json["is_output"] = static_cast<bool>(facts.output[s]);
  return json;
}

}  // namespace foretime::data
