#include "inference/candidates/candidates_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "data/files/npz_reader.h"

namespace foretime::inference {
namespace {

using data::kAnySize;
using data::kLayoutFeatures;
using data::kTileFeatures;

constexpr uintmax_t kMostBytes = uintmax_t{1} << 30;  // of JSON, which takes several times its size while it is read

std::string read_text(const std::filesystem::path& file) {
  std::error_code failure;
  const auto size = std::filesystem::file_size(file, failure);
  std::ifstream stream(file, std::ios::binary);
  if (failure || !stream) throw DataError(fmt::format("{}: cannot be read", file.string()));
  if (size > kMostBytes)
    throw DataError(fmt::format("{}: {} bytes of JSON, expected at most {}; .npz files may be larger", file.string(),
                                size, kMostBytes));
  std::string text;
  text.reserve(static_cast<size_t>(size) + simdjson::SIMDJSON_PADDING);
  text.resize(static_cast<size_t>(size));
  stream.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<size_t>(stream.gcount()));
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
      reader.fail("no field of the file, expected candidates");
    }
    reader.once(met);
    candidates = read_candidates(reader, value, schema);
  }
  if (!met) reader.fail("without candidates");
  return candidates;
}

/// Numbers of a member, rows at a time where the file's order allows, each given to `take(value)`.
template <class T, class Take>
void for_each_number(data::NpyStream stream, int64_t row, Take take) {
  if (stream.header().fortran_order) {
    for (const T value : stream.read_all<T>()) take(value);
    return;
  }
  std::vector<T> values(static_cast<size_t>(row));
  while (stream.remaining() > 0) {
    stream.read(values.data(), std::min(row, stream.remaining()));
    for (const T value : values) take(value);
  }
  stream.finish();
}

void check_count(int64_t count, const CandidateSchema& schema, const std::string& origin) {
  if (count < 1 || count > schema.most)
    throw DataError(fmt::format("{}: {} candidates, expected 1 … {}", origin, count, schema.most));
}

void check_nodes(const data::NpzReader& npz, const std::string& member, const CandidateSchema& schema) {
  const auto given = npz.read<int64_t>(member, {{kAnySize}, "(configurable nodes)"});
  const auto& nodes = schema.configurable;
  for (size_t i = 0; i < std::min(given.size(), nodes.size()); ++i) {
    if (given[i] != nodes[i])
      throw DataError(fmt::format("{}: node {} at place {}, expected {}: the graph's configurable nodes, ascending",
                                  npz.origin(member), given[i], i, nodes[i]));
  }
  if (given.size() != nodes.size())
    throw DataError(fmt::format("{}: {} nodes, expected the graph's {} configurable ones", npz.origin(member),
                                given.size(), nodes.size()));
}

Candidates read_npz(const std::filesystem::path& file, const CandidateSchema& schema) {
  const data::NpzReader npz(file);
  const bool layouts = schema.kind == data::CandidateKind::layout;
  const std::string member = layouts ? "node_config_feat" : "config_feat";
  const auto nodes = static_cast<int64_t>(schema.configurable.size());
  const data::ShapeRule rule =
      layouts ? data::ShapeRule{{kAnySize, nodes, kLayoutFeatures},
                                fmt::format("(candidates, {}, {}): the graph has {} configurable nodes", nodes,
                                            kLayoutFeatures, nodes)}
              : data::ShapeRule{{kAnySize, kTileFeatures}, fmt::format("(candidates, {})", kTileFeatures)};
  const std::string origin = npz.origin(member);
  if (layouts && npz.has("node_config_ids")) check_nodes(npz, "node_config_ids", schema);
  auto stream = npz.open(member, rule);
  Candidates candidates;
  candidates.count = stream.header().shape.at(0);
  check_count(candidates.count, schema, origin);
  const bool floating = stream.header().type.kind == data::NpyKind::floating;
  const int64_t row = schema.row();
  if (row == 0) {
    stream.finish();
    return candidates;
  }
  const auto fail = [&](size_t position, auto value, const char* expected) {
    const auto at = static_cast<int64_t>(position);
    throw DataError(
        fmt::format("{}: candidate {}: {} at position {}, expected {}", origin, at / row, value, at % row, expected));
  };
  const auto take_layout = [&](auto value) {
    using Limits = std::numeric_limits<int8_t>;
    const auto whole = static_cast<int8_t>(value >= Limits::min() && value <= Limits::max() ? value : 0);
    if (static_cast<decltype(value)>(whole) != value)
      fail(candidates.layouts.size(), value, "a whole number, -128 … 127");
    candidates.layouts.push_back(whole);
  };
  const auto take_tile = [&](auto value) {
    const auto number = static_cast<float>(value);
    if (!std::isfinite(number)) fail(candidates.tiles.size(), value, "a finite number");
    candidates.tiles.push_back(number);
  };
  const auto total = static_cast<size_t>(candidates.count * row);
  layouts ? candidates.layouts.reserve(total) : candidates.tiles.reserve(total);
  const auto read = [&](const auto& take) {
    floating ? for_each_number<double>(std::move(stream), row, take)
             : for_each_number<int64_t>(std::move(stream), row, take);
  };
  layouts ? read(take_layout) : read(take_tile);
  return candidates;
}

}  // namespace

Candidates read_candidates_file(const std::filesystem::path& file, const CandidateSchema& schema) {
  if (file.extension() == ".npz") return read_npz(file, schema);
  if (file.extension() == ".json") return read_json(file, schema);
  throw DataError(fmt::format("{}: expected candidates as .json or .npz", file.string()));
}

}  // namespace foretime::inference
