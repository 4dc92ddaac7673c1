#include "sharding/dataset_index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/counter_random.h"
#include "data/frontends/loops/loop_graph.h"
#include "sharding/cost.h"

namespace foretime::sharding {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path, const char* what) {
  std::error_code failure;
  auto real = fs::canonical(path, failure);
  if (failure) throw DataError("{}: {}{}", path.string(), what, failure.message());
  return real;
}

/// By components: /data2 is not inside /data.
bool lies_in(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

}  // namespace

data::FileCheck confinement(const configs::DataSettings& settings) {
  if (settings.allowed_roots.empty()) return {};
  std::vector<fs::path> folders;
  for (const auto& folder : settings.allowed_roots)
    folders.push_back(resolved(folder, "folder of data.allowed_roots: "));
  return [folders = std::move(folders), named = settings.allowed_roots](const fs::path& file) {
    const auto real = resolved(file, "");
    if (std::ranges::any_of(folders, [&](const auto& folder) { return lies_in(real, folder); })) return;
    throw DataError(
        "{}: lies outside of the folders that may be read, expected a file in {} "
        "(data.allowed_roots; an agent's --data-root)",
        file == real ? file.string() : file.string() + " (really " + real.string() + ")", fmt::join(named, ", "));
  };
}

namespace {

using Json = nlohmann::json;

uint64_t mix_text(const std::string& text) {
  uint64_t state = 0;
  for (const char c : text) state = mix(state ^ static_cast<uint8_t>(c));
  return state;
}

int64_t samples_per_epoch(const data::GroupHeader& header, const configs::SamplerSettings& sampler) {
  if (sampler.samples_per_group > 0) return sampler.samples_per_group;
  const int64_t at_once = sampler.candidates_per_group;
  return at_once == 0 ? 1 : std::max<int64_t>(1, (header.candidates + at_once - 1) / at_once);
}

}  // namespace

std::string to_string(Role role) { return role == Role::train ? "train" : role == Role::valid ? "valid" : "test"; }

std::vector<int64_t> DatasetIndex::with_role(Role role) const {
  std::vector<int64_t> found;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].role == role) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

uint64_t DatasetIndex::fingerprint() const {
  uint64_t state = 0;
  for (const auto& entry : entries) {
    state =
        random_bits({state, entry.header.fingerprint, mix_text(entry.header.name), static_cast<uint64_t>(entry.role)});
    if (entry.parts > 1) state = random_bits({state, static_cast<uint64_t>(entry.parts)});
  }
  return state;
}

data::CandidateKind candidate_kind(configs::DataFormat format) {
  if (format == configs::DataFormat::layout) return data::CandidateKind::layout;
  return format == configs::DataFormat::tile ? data::CandidateKind::tile : data::CandidateKind::program;
}

IndexEntry make_entry(data::GroupHeader header, Role role, const configs::Settings& settings) {
  IndexEntry entry{.header = std::move(header), .role = role};
  entry.parts = count_parts(entry.header, settings);
  entry.sample_cost = estimate_sample_cost(entry.header, settings);
  entry.samples = role == Role::train ? samples_per_epoch(entry.header, settings.sampler) : 0;
  return entry;
}

DatasetIndex make_dataset_index(const configs::Settings& settings) {
  DatasetIndex dataset;
  const auto kind = candidate_kind(settings.data.format);
  const auto featurizer = data::make_featurizer(settings.data);
  const auto add = [&](const std::vector<std::string>& patterns, Role role) {
    if (patterns.empty()) return;
    for (auto& header : data::list_groups(patterns, settings.data.root, kind, confinement(settings.data), featurizer))
      dataset.entries.push_back(make_entry(std::move(header), role, settings));
  };
  add(settings.data.train, Role::train);
  add(settings.data.valid, Role::valid);
  add(settings.data.test, Role::test);
  for (const auto& entry : dataset.entries) {
    const auto expected = dataset.entries.front().header.feature_count;
    if (entry.header.feature_count != expected)
      throw DataError("{}: {} node features, expected {} as in {}", entry.header.file.string(),
                      entry.header.feature_count, expected, dataset.entries.front().header.file.string());
  }
  return dataset;
}

void check_representation(const DatasetIndex& dataset, const configs::DataSettings& settings) {
  for (const auto& [header, role, parts, cost, samples] : dataset.entries) {
    for (const auto other : {configs::Representation::loops, configs::Representation::curve}) {
      if (header.kind == data::CandidateKind::program && settings.representation != other &&
          header.feature_count == data::program_columns(other)) {
        throw DataError("{}: its programs have the {} node features of data.representation {}, expected {}",
                        header.file.string(), header.feature_count, word_of(other), word_of(settings.representation));
      }
    }
  }
}

std::string serialize(const DatasetIndex& dataset) {
  Json list = Json::array();
  for (const auto& [header, role, parts, cost, samples] : dataset.entries) {
    list.push_back({header.file.string(), header.member, header.name, static_cast<int>(header.kind), header.graphs,
                    header.nodes, header.edges, header.candidates, header.configurable, header.feature_count,
                    header.fingerprint, header.node_type_count, static_cast<int>(role), parts, cost, samples,
                    static_cast<int>(header.collection)});
  }
  return list.dump();
}

DatasetIndex parse_dataset_index(const std::string& bytes, const data::FeaturizerPtr& featurizer) {
  DatasetIndex dataset;
  for (const auto& item : Json::parse(bytes)) {
    IndexEntry entry;
    auto& header = entry.header;
    header.file = item[0].get<std::string>();
    header.member = item[1];
    header.name = item[2];
    header.kind = static_cast<data::CandidateKind>(item[3].get<int>());
    header.graphs = item[4];
    header.nodes = item[5];
    header.edges = item[6];
    header.candidates = item[7];
    header.configurable = item[8];
    header.feature_count = item[9];
    header.fingerprint = item[10];
    header.node_type_count = item[11];
    if (header.kind == data::CandidateKind::program && header.member < 0) header.featurizer = featurizer;
    entry.role = static_cast<Role>(item[12].get<int>());
    entry.parts = item[13];
    entry.sample_cost = item[14];
    entry.samples = item[15];
    header.collection = static_cast<data::Collection>(item[16].get<int>());
    dataset.entries.push_back(std::move(entry));
  }
  return dataset;
}

void verify_files(const DatasetIndex& dataset, const std::vector<int64_t>& entries, const data::FileCheck& admit) {
  // Each file is listed once, however many groups it has.
  std::map<std::filesystem::path, std::map<std::pair<int64_t, std::string>, uint64_t>> seen;  // fingerprints
  for (const int64_t i : entries) {
    const auto& expected = dataset.entries[static_cast<size_t>(i)].header;
    const auto [file, first] = seen.try_emplace(expected.file);
    if (first) {
      for (const auto& header : data::list_groups({expected.file.string()}, {}, expected.kind, admit))
        file->second.emplace(std::pair(header.member, data::plain_name(header.name)), header.fingerprint);
    }
    // A file alone has no names to tell apart, which the whole listing may have qualified.
    const auto found = file->second.find({expected.member, data::plain_name(expected.name)});
    if (found == file->second.end())
      throw DataError("{}: group {} is missing here, the coordinator found it", expected.file.string(), expected.name);
    if (found->second != expected.fingerprint)
      throw DataError("{}: group {} has fingerprint {:016x} here, {:016x} on rank 0: the ranks see different data",
                      expected.file.string(), expected.name, found->second, expected.fingerprint);
  }
}

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
    if (!stream_) throw DataError("{}: cannot be opened; expected a CSV file of sizes", file_.string());
    std::string line;
    if (!std::getline(stream_, line) || split(line) == std::vector<std::string>{""})
      throw DataError("{}: empty; expected a header line such as nodes,edges", file_.string());
    if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    const auto names = split(line);
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::ranges::find(kKnown, names[i]) == std::end(kKnown))
        throw DataError("{}: line 1: column '{}'; expected nodes, edges and, if known, configurable, candidates, name",
                        file_.string(), names[i]);
      if (!columns_.emplace(names[i], i).second)
        throw DataError("{}: line 1: column {} stands there twice", file_.string(), names[i]);
    }
    for (const char* needed : {"nodes", "edges"}) {
      if (!columns_.contains(needed))
        throw DataError("{}: line 1: no column {}; expected nodes and edges at the least", file_.string(), needed);
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
    if (cells_.size() != columns_.size())
      throw DataError("{}: line {}: {} columns, expected {}", file_.string(), line_, cells_.size(), columns_.size());
    return true;
  }

  int64_t number(const std::string& column, int64_t least, int64_t most) const {
    const auto& text = cells_[columns_.at(column)];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
      throw DataError("{}: line {}: {} is '{}', expected a whole number from {} to {}", file_.string(), line_, column,
                      text, least, most);
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
    throw DataError("{}: no graphs; expected a line a graph below the header", file.string());
  return list;
}

}  // namespace foretime::sharding
