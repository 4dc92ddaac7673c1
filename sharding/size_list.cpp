#include "sharding/size_list.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/counter_random.h"

namespace foretime::sharding {
namespace {

constexpr int64_t kMostNodes = int64_t{1} << 31;  // node ids are 32 bits wide

std::vector<std::string> split(std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  std::vector<std::string> cells;
  size_t start = 0;
  while (true) {
    const size_t comma = line.find(',', start);
    auto cell = line.substr(start, comma == std::string::npos ? comma : comma - start);
    const auto first = cell.find_first_not_of(" \t"), last = cell.find_last_not_of(" \t");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    if (comma == std::string::npos) return cells;
    start = comma + 1;
  }
}

class Reader {
 public:
  explicit Reader(std::filesystem::path file) : file_(std::move(file)), stream_(file_) {
    if (!stream_) throw DataError(fmt::format("{}: cannot be opened; expected a CSV file of sizes", file_.string()));
    std::string line;
    if (!std::getline(stream_, line) || split(line) == std::vector<std::string>{""})
      throw DataError(fmt::format("{}: empty; expected a header line such as nodes,edges", file_.string()));
    if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    const auto names = split(line);
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::find(std::begin(kKnown), std::end(kKnown), names[i]) == std::end(kKnown)) {
        throw DataError(
            fmt::format("{}: line 1: column '{}'; expected nodes, edges and, if known, configurable, candidates, name",
                        file_.string(), names[i]));
      }
      if (!columns_.emplace(names[i], i).second)
        throw DataError(fmt::format("{}: line 1: column {} stands there twice", file_.string(), names[i]));
    }
    for (const char* needed : {"nodes", "edges"}) {
      if (!columns_.contains(needed)) {
        throw DataError(
            fmt::format("{}: line 1: no column {}; expected nodes and edges at the least", file_.string(), needed));
      }
    }
  }

  bool has(const std::string& column) const { return columns_.contains(column); }

  bool next() {
    std::string line;
    do {
      if (!std::getline(stream_, line)) return false;
      ++line_;
    } while (line.find_first_not_of(" \t\r") == std::string::npos);
    cells_ = split(line);
    if (cells_.size() != columns_.size()) {
      throw DataError(
          fmt::format("{}: line {}: {} columns, expected {}", file_.string(), line_, cells_.size(), columns_.size()));
    }
    return true;
  }

  int64_t number(const std::string& column, int64_t least, int64_t most) const {
    const auto& text = cells_[columns_.at(column)];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
      throw DataError(fmt::format("{}: line {}: {} is '{}', expected a whole number from {} to {}", file_.string(),
                                  line_, column, text, least, most));
    }
    return value;
  }

  std::string name() const {
    return has("name") ? cells_[columns_.at("name")] : fmt::format("{}:{}", file_.stem().string(), line_);
  }

 private:
  static constexpr const char* kKnown[] = {"nodes", "edges", "configurable", "candidates", "name"};

  std::filesystem::path file_;
  std::ifstream stream_;
  std::map<std::string, size_t> columns_;
  std::vector<std::string> cells_;
  int64_t line_ = 1;
};

}  // namespace

SizeList read_size_list(const std::filesystem::path& file, const configs::Settings& settings,
                        const SizeAssumptions& assumptions) {
  Reader reader(file);
  SizeList list;
  list.assumed_configurable = !reader.has("configurable");
  list.assumed_candidates = !reader.has("candidates");
  while (reader.next()) {
    data::GroupHeader header;
    header.file = file;
    header.name = reader.name();
    header.graphs = 1;
    header.feature_count = data::kHloFeatures;
    header.nodes = reader.number("nodes", 1, kMostNodes);
    header.edges = reader.number("edges", 0, int64_t{1} << 40);
    header.configurable = list.assumed_configurable
                              ? std::llround(static_cast<double>(header.nodes) * assumptions.configurable_share)
                              : reader.number("configurable", 0, header.nodes);
    header.candidates = list.assumed_candidates ? assumptions.candidates : reader.number("candidates", 1, kMostNodes);
    header.fingerprint =
        random_bits({static_cast<uint64_t>(header.nodes), static_cast<uint64_t>(header.edges),
                     static_cast<uint64_t>(header.configurable), static_cast<uint64_t>(header.candidates)});
    list.dataset.entries.push_back(make_entry(std::move(header), Role::train, settings));
  }
  if (list.dataset.entries.empty())
    throw DataError(fmt::format("{}: no graphs; expected a line a graph below the header", file.string()));
  return list;
}

}  // namespace foretime::sharding
