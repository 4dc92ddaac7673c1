#include "inference/candidates/candidates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/text.h"
#include "data/frontends/hlo/module_graph.h"

namespace foretime::inference {
namespace {

using Element = JsonReader::Element;
using Inside = JsonReader::Inside;
using data::kLayoutFeatures;
using data::kTileFeatures;

constexpr int64_t kTensors = 3, kDimensions = 6;  // of a node's layout
constexpr std::array<std::string_view, kTensors> kTensorNames = {"output", "input", "kernel"};
constexpr int64_t kUnsaid = -1;

class CandidateReader {
 public:
  CandidateReader(JsonReader& json, const CandidateSchema& schema)
      : json_(json), schema_(schema), met_(schema.configurable.size()) {}

  Candidates read(const Element& list) {
    for (const Element item : items_of(list)) {
      const Inside inside(json_, "candidates", all_.count);
      if (all_.count == schema_.most)
        json_.fail(fmt::format("more than {} candidates, which is the limit", schema_.most));
      read_one(item);
      ++all_.count;
    }
    if (!all_.ids.empty()) all_.ids.resize(static_cast<size_t>(all_.count));
    return std::move(all_);
  }

 private:
  simdjson::dom::array items_of(const Element& list) const {
    const Inside inside(json_, "candidates");
    const auto items = json_.list(list, "a list of candidates");
    if (items.begin() == items.end()) json_.fail("empty, expected at least one candidate");
    return items;
  }

  void read_one(const Element& item) {
    const bool layouts = schema_.kind == data::CandidateKind::layout;
    const std::string_view field = layouts ? "layouts" : "config";
    bool has_id = false, has_configuration = false;
    for (const auto& [name, value] : json_.object(item, fmt::format("an object with id and {}", field))) {
      const Inside inside(json_, name);
      if (name == "id") {
        json_.once(has_id);
        all_.ids.resize(static_cast<size_t>(all_.count) + 1);
        all_.ids.back() = json_.name(value);
      } else if (name == field) {
        json_.once(has_configuration);
        layouts ? read_layouts(value) : read_tile(value);
      } else {
        json_.fail(fmt::format("no field of a candidate, expected id and {}", field));
      }
    }
    if (!has_configuration) json_.fail(fmt::format("without {}", field));
  }

  void read_layouts(const Element& nodes) {
    const size_t start = all_.layouts.size();
    all_.layouts.resize(start + static_cast<size_t>(schema_.row()), int8_t{kUnsaid});
    std::fill(met_.begin(), met_.end(), false);
    for (const auto& [name, layout] : json_.object(nodes, "an object of nodes")) {
      const Inside inside(json_, name);
      const size_t place = place_of(name);
      if (met_[place]) json_.fail("a node that is given twice");
      met_[place] = true;
      read_layout(layout, all_.layouts.data() + start + place * static_cast<size_t>(kLayoutFeatures));
    }
  }

  /// Position among the configurable nodes.
  size_t place_of(std::string_view name) const {
    int32_t node = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), node);
    if (error != std::errc() || end != name.data() + name.size()) {
      if (schema_.names == nullptr || schema_.names->empty()) json_.fail("expected the number of a node");
      node = schema_.names->find(name);
      if (node == NodeNames::kAmbiguous) json_.fail("several instructions have this name, expected a node's number");
      if (node < 0) json_.fail("no instruction of the module, expected its name or the number of a node");
    }
    const auto& nodes = schema_.configurable;
    const auto found = std::lower_bound(nodes.begin(), nodes.end(), node);
    if (found == nodes.end() || *found != node)
      json_.fail(fmt::format("node {} is not configurable; {}", node, those()));
    return static_cast<size_t>(found - nodes.begin());
  }

  std::string those() const {
    constexpr size_t kShown = 12;
    const auto& nodes = schema_.configurable;
    if (nodes.empty()) return "the graph has no configurable nodes";
    std::string text = fmt::format("{} nodes are:", nodes.size());
    for (size_t i = 0; i < std::min(nodes.size(), kShown); ++i) {
      const auto name = schema_.names == nullptr ? "" : schema_.names->of(nodes[i]);
      text += name.empty() ? fmt::format(" {}", nodes[i]) : fmt::format(" {} ({})", nodes[i], printable(name));
    }
    return text + (nodes.size() > kShown ? " …" : "");
  }

  /// 18 numbers, or up to three lists of up to six.
  void read_layout(const Element& layout, int8_t* row) {
    constexpr const char* kExpected = "18 numbers, or lists of at most 6 for output, input and kernel";
    const auto values = json_.list(layout, kExpected);
    const bool flat = values.size() > 0 && !values.at(0).is_array();
    if (flat) return read_numbers(values, kLayoutFeatures, /*all=*/true, row);
    if (static_cast<int64_t>(values.size()) > kTensors)
      json_.fail(fmt::format("{} lists, expected at most 3: output, input and kernel", values.size()));
    size_t tensor = 0;
    for (const Element list : values) {
      const Inside inside(json_, kTensorNames.at(tensor));
      read_numbers(json_.list(list, "a list of at most 6 numbers"), kDimensions, /*all=*/false,
                   row + static_cast<int64_t>(tensor) * kDimensions);
      ++tensor;
    }
  }

  void read_numbers(const simdjson::dom::array& values, int64_t most, bool all, int8_t* row) {
    const auto given = static_cast<int64_t>(values.size());
    if (all ? given != most : given > most)
      json_.fail(fmt::format("{} numbers, expected {}{}", given, all ? "" : "at most ", most));
    for (const Element value : values)
      *row++ = static_cast<int8_t>(json_.integer(value, kUnsaid, std::numeric_limits<int8_t>::max()));
  }

  /// 24 numbers, or the bounds that they are made of.
  void read_tile(const Element& config) {
    const size_t start = all_.tiles.size();
    all_.tiles.resize(start + static_cast<size_t>(kTileFeatures));
    float* row = all_.tiles.data() + start;
    if (config.is_object()) return read_bounds(json_.object(config, ""), row);
    const auto values = json_.list(config, "24 numbers, or an object with kernel_bounds, output_bounds, input_bounds");
    if (static_cast<int64_t>(values.size()) != kTileFeatures)
      json_.fail(fmt::format("{} numbers, expected {}", values.size(), kTileFeatures));
    for (const Element value : values) *row++ = json_.number(value);
  }

  /// As the data set's extractor has it: six bounds, then sum and product of all; of none, 0 both.
  void read_bounds(const simdjson::dom::object& bounds, float* row) {
    constexpr std::array<std::string_view, kTensors> kNames = {"kernel_bounds", "output_bounds", "input_bounds"};
    constexpr int64_t kMost = int64_t{1} << 31, kColumns = kTileFeatures / kTensors;
    std::array<bool, kTensors> met{};
    for (const auto& [name, value] : bounds) {
      const Inside inside(json_, name);
      const auto which = static_cast<size_t>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
      if (which == kNames.size()) json_.fail("expected kernel_bounds, output_bounds and input_bounds");
      json_.once(met.at(which));
      const auto values = json_.list(value, "a list of bounds");
      float* const out = row + static_cast<int64_t>(which) * kColumns;
      double sum = 0.0, product = values.size() == 0 ? 0.0 : 1.0;
      int64_t place = 0;
      for (const Element one : values) {
        const auto bound = static_cast<double>(json_.integer(one, 0, kMost));
        if (place < kDimensions) out[place++] = static_cast<float>(bound);
        sum += bound;
        product *= bound;
      }
      if (product > double{std::numeric_limits<float>::max()}) json_.fail("a product that does not fit 32 bits");
      out[kDimensions] = static_cast<float>(sum);
      out[kDimensions + 1] = static_cast<float>(product);
    }
  }

  JsonReader& json_;
  const CandidateSchema& schema_;
  Candidates all_;
  std::vector<bool> met_;
};

}  // namespace

int64_t CandidateSchema::row() const {
  return kind == data::CandidateKind::layout ? static_cast<int64_t>(configurable.size()) * kLayoutFeatures
                                             : kTileFeatures;
}

Candidates read_candidates(JsonReader& reader, const simdjson::dom::element& list, const CandidateSchema& schema) {
  return CandidateReader(reader, schema).read(list);
}

}  // namespace foretime::inference
