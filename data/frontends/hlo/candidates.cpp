#include "data/frontends/hlo/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/read_input.h"
#include "base/text.h"
#include "data/files/npz_reader.h"
#include "data/frontends/hlo/module_graph.h"

namespace foretime::data {
namespace {

constexpr uint32_t kInstructionName = 1;  // hlo.proto

using Element = JsonReader::Element;
using Inside = JsonReader::Inside;

constexpr int64_t kLayoutTensors = 3, kDimensions = 6;  // numbers in a node's layout
constexpr std::array<std::string_view, kLayoutTensors> kTensorNames = {"output", "input", "kernel"};
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
    if (!all_.ids.empty()) all_.ids.resize(all_.count);
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
    const bool layouts = schema_.kind == CandidateKind::layout;
    const std::string_view field = layouts ? "layouts" : "config";
    bool has_id = false, has_configuration = false;
    for (const auto& [name, value] : json_.object(item, fmt::format("an object with id and {}", field))) {
      const Inside inside(json_, name);
      if (name == "id") {
        json_.once(has_id);
        all_.ids.resize(all_.count + 1);
        all_.ids.back() = json_.name(value);
      } else if (name == field) {
        json_.once(has_configuration);
        layouts ? read_layouts(value) : read_tile(value);
      } else {
        json_.fail(fmt::format("unknown field of a candidate, expected id and {}", field));
      }
    }
    if (!has_configuration) json_.fail(fmt::format("without {}", field));
  }

  void read_layouts(const Element& nodes) {
    const size_t start = all_.layouts.size();
    all_.layouts.resize(start + schema_.row(), int8_t{kUnsaid});
    std::fill(met_.begin(), met_.end(), false);
    for (const auto& [name, layout] : json_.object(nodes, "an object of nodes")) {
      const Inside inside(json_, name);
      const size_t place = place_of(name);
      if (met_[place]) json_.fail("this node occurs twice, expected each once");
      met_[place] = true;
      read_layout(layout, all_.layouts.data() + start + place * kLayoutFeatures);
    }
  }

  /// Position among the configurable nodes.
  size_t place_of(std::string_view name) const {
    const auto number = parse_number<int32_t>(name);
    int32_t node = number.value_or(0);
    if (!number) {
      if (schema_.names == nullptr || schema_.names->empty()) json_.fail("expected the number of a node");
      node = schema_.names->find(name);
      if (node == NodeNames::kAmbiguous) json_.fail("several instructions have this name, expected a node's number");
      if (node < 0)
        json_.fail(
            fmt::format("not an instruction of the module, expected its name or the number of a node; {}", those()));
    }
    const auto& nodes = schema_.configurable;
    const auto found = std::lower_bound(nodes.begin(), nodes.end(), node);
    if (found == nodes.end() || *found != node)
      json_.fail(fmt::format("node {} is not configurable; {}", node, those()));
    return found - nodes.begin();
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
    if (std::ssize(values) > kLayoutTensors)
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
    const auto given = std::ssize(values);
    if (all ? given != most : given > most)
      json_.fail(fmt::format("{} numbers, expected {}{}", given, all ? "" : "at most ", most));
    for (const Element value : values) *row++ = json_.integer(value, kUnsaid, std::numeric_limits<int8_t>::max());
  }

  /// 24 numbers, or the bounds that they are made of.
  void read_tile(const Element& config) {
    const size_t start = all_.tiles.size();
    all_.tiles.resize(start + kTileFeatures);
    float* row = all_.tiles.data() + start;
    if (config.is_object()) return read_bounds(json_.object(config, ""), row);
    const auto values = json_.list(config, "24 numbers, or an object with kernel_bounds, output_bounds, input_bounds");
    if (std::ssize(values) != kTileFeatures)
      json_.fail(fmt::format("{} numbers, expected {}", values.size(), kTileFeatures));
    for (const Element value : values) *row++ = json_.number(value);
  }

  /// Reads bounds in the form of the data set's extractor: six bounds, then sum and product of all; without bounds both
  /// are 0.
  void read_bounds(const simdjson::dom::object& bounds, float* row) {
    constexpr std::array<std::string_view, kLayoutTensors> kNames = {"kernel_bounds", "output_bounds", "input_bounds"};
    constexpr int64_t kMost = int64_t{1} << 31, kColumns = kTileFeatures / kLayoutTensors;
    std::array<bool, kLayoutTensors> met{};
    for (const auto& [name, value] : bounds) {
      const Inside inside(json_, name);
      const size_t which = std::find(kNames.begin(), kNames.end(), name) - kNames.begin();
      if (which == kNames.size()) json_.fail("expected kernel_bounds, output_bounds and input_bounds");
      json_.once(met.at(which));
      const auto values = json_.list(value, "a list of bounds");
      float* const out = row + static_cast<int64_t>(which) * kColumns;
      double sum = 0.0, product = values.size() == 0 ? 0.0 : 1.0;
      int64_t place = 0;
      for (const Element one : values) {
        const double bound = json_.integer(one, 0, kMost);
        if (place < kDimensions) out[place++] = bound;
        sum += bound;
        product *= bound;
      }
      if (product > double{std::numeric_limits<float>::max()}) json_.fail("a product that does not fit 32 bits");
      out[kDimensions] = sum;
      out[kDimensions + 1] = product;
    }
  }

  JsonReader& json_;
  const CandidateSchema& schema_;
  Candidates all_;
  std::vector<bool> met_;
};

// Limits JSON files, which take several times their size while being read.
constexpr uintmax_t kMostBytes = uintmax_t{1} << 30;

std::string read_text(const std::filesystem::path& file) {
  auto text = read_input(file, kMostBytes);  // .npz files may be larger
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  return text;
}

Candidates read_json(const std::filesystem::path& file, const CandidateSchema& schema) {
  const std::string text = read_text(file);
  JsonReader reader(file.string());
  const auto root = reader.object(reader.parse(text), "an object with candidates");
  Candidates candidates;
  bool met = false;
  for (const auto& [name, value] : root) {
    if (name != "candidates") {
      const JsonReader::Inside inside(reader, name);
      reader.fail("unknown field, expected candidates");
    }
    reader.once(met);
    candidates = read_candidates(reader, value, schema);
  }
  if (!met) reader.fail("without candidates");
  return candidates;
}

/// Numbers of a member, rows at a time where the file's order allows, each given to `take(value)`.
template <class T, class Take>
void for_each_number(NpyStream stream, int64_t row, Take take) {
  if (stream.header().fortran_order) {
    for (const T value : stream.read_all<T>()) take(value);
    return;
  }
  std::vector<T> values(row);
  while (stream.remaining() > 0) {
    stream.read(values.data(), std::min(row, stream.remaining()));
    for (const T value : values) take(value);
  }
  stream.finish();
}

void check_nodes(const NpzReader& npz, const std::string& member, const CandidateSchema& schema) {
  const auto given = npz.read<int64_t>(member, {{kAnySize}, "(configurable nodes)"});
  const auto& nodes = schema.configurable;
  for (size_t i = 0; i < std::min(given.size(), nodes.size()); ++i)
    if (given[i] != nodes[i])
      throw DataError("{}: node {} at place {}, expected {}: the graph's configurable nodes, ascending",
                      npz.origin(member), given[i], i, nodes[i]);
  if (given.size() != nodes.size())
    throw DataError("{}: {} nodes, expected the graph's {} configurable ones", npz.origin(member), given.size(),
                    nodes.size());
}

Candidates read_npz(const std::filesystem::path& file, const CandidateSchema& schema) {
  const NpzReader npz(file);
  const bool layouts = schema.kind == CandidateKind::layout;
  const std::string member = layouts ? "node_config_feat" : "config_feat";
  const auto nodes = std::ssize(schema.configurable);
  const ShapeRule rule = layouts ? ShapeRule{{kAnySize, nodes, kLayoutFeatures},
                                             fmt::format("(candidates, {}, {}): the graph has {} configurable nodes",
                                                         nodes, kLayoutFeatures, nodes)}
                                 : ShapeRule{{kAnySize, kTileFeatures}, fmt::format("(candidates, {})", kTileFeatures)};
  const std::string origin = npz.origin(member);
  if (layouts && npz.has("node_config_ids")) check_nodes(npz, "node_config_ids", schema);
  auto stream = npz.open(member, rule);
  Candidates candidates;
  candidates.count = stream.header().shape.at(0);
  if (candidates.count < 1 || candidates.count > schema.most)
    throw DataError("{}: {} candidates, expected 1 … {}", origin, candidates.count, schema.most);
  const bool floating = stream.header().type.kind == NpyKind::floating;
  const int64_t row = schema.row();
  if (row == 0) {
    stream.finish();
    return candidates;
  }
  const auto fail = [&](size_t position, auto value, const char* expected) {
    const int64_t at = position;
    throw DataError("{}: candidate {}: {} at position {}, expected {}", origin, at / row, value, at % row, expected);
  };
  const auto take_layout = [&](auto value) {
    using Limits = std::numeric_limits<int8_t>;
    const auto whole = static_cast<int8_t>(value >= Limits::min() && value <= Limits::max() ? value : 0);
    if (static_cast<decltype(value)>(whole) != value)
      fail(candidates.layouts.size(), value, "a whole number, -128 … 127");
    candidates.layouts.push_back(whole);
  };
  const auto take_tile = [&](auto value) {
    const float number = value;
    if (!std::isfinite(number)) fail(candidates.tiles.size(), value, "a finite number");
    candidates.tiles.push_back(number);
  };
  const size_t total = candidates.count * row;
  layouts ? candidates.layouts.reserve(total) : candidates.tiles.reserve(total);
  const auto read = [&](const auto& take) {
    floating ? for_each_number<double>(std::move(stream), row, take)
             : for_each_number<int64_t>(std::move(stream), row, take);
  };
  layouts ? read(take_layout) : read(take_tile);
  return candidates;
}

}  // namespace

NodeNames::NodeNames(const HloFile& file) {
  const auto& source = file.source();
  if (file.modules().size() != 1)
    source.fail(fmt::format("{} modules, expected one whose candidates are ranked", file.modules().size()));
  const auto tuning = file.outline(file.modules().front());
  const auto module = outline_module(source, tuning.module, {});
  names_.reserve(module.instructions.size());
  for (const auto& instruction : module.instructions) {
    auto& name = names_.emplace_back();
    WireReader reader(source, instruction.bytes);
    for (WireField field; reader.next(field);)
      if (field.is_bytes(kInstructionName)) name = field.bytes;
  }
  for (size_t node = 0; node < names_.size(); ++node) {
    if (names_[node].empty()) continue;
    const auto [place, fresh] = nodes_.try_emplace(names_[node], node);
    if (!fresh) place->second = kAmbiguous;
  }
}

int32_t NodeNames::find(std::string_view name) const {
  if (name.starts_with('%')) name.remove_prefix(1);
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? kNone : found->second;
}

int64_t CandidateSchema::row() const {
  return kind == CandidateKind::layout ? std::ssize(configurable) * kLayoutFeatures : kTileFeatures;
}

Candidates read_candidates(JsonReader& reader, const simdjson::dom::element& list, const CandidateSchema& schema) {
  return CandidateReader(reader, schema).read(list);
}

Candidates read_candidates_file(const std::filesystem::path& file, const CandidateSchema& schema) {
  if (file.extension() == ".npz") return read_npz(file, schema);
  if (file.extension() == ".json") return read_json(file, schema);
  throw DataError("{}: expected candidates as .json or .npz", file.string());
}

}  // namespace foretime::data
