#include "sharding/dataset_index.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/counter_random.h"
#include "base/csv.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/text.h"
#include "data/frontends/loops/loop_graph.h"
#include "sharding/cost.h"

namespace foretime::sharding {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path, const char* what) {
  std::error_code failure;
  auto real = fs::canonical(path, failure);
  if (failure && is_storage_failure(failure.value())) throw_file_error(path, "cannot be read", failure.value());
  if (failure) throw DataError("{}: {}{}", path.string(), what, failure.message());
  return real;
}

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

uint64_t mix_entry(uint64_t state, const IndexEntry& entry) {
  state = random_bits({state, entry.header.fingerprint, mix_text(entry.header.name), entry.role});
  return entry.parts > 1 ? random_bits({state, entry.parts}) : state;
}

/// Calls `field` with each member of an entry that other ranks get, in a fixed order.
void each_field(auto& entry, const auto& field) {
  const auto all = [&](auto&... values) { (field(values), ...); };
  auto& header = entry.header;
  all(header.file, header.member, header.name, header.kind, header.collection, header.graphs, header.nodes,
      header.edges, header.candidates, header.configurable, header.feature_count, header.node_type_count,
      header.fingerprint, entry.role, entry.parts, entry.sample_cost, entry.sharing, entry.samples);
}

constexpr int64_t kMostNodes = int64_t{1} << 31;  // node ids are 32 bits wide

/// Returns the position of each column of a size list.
std::map<std::string, size_t> size_columns(const CsvTable& table) {
  constexpr const char* kKnown[] = {"nodes", "edges", "configurable", "candidates", "name"};
  std::map<std::string, size_t> columns;
  for (const auto& column : table.columns) {
    const auto name = trimmed(column);
    if (std::ranges::find(kKnown, name) == std::end(kKnown))
      throw DataError(
          "{}: line 1: unknown column '{}'; expected nodes, edges and, if known, configurable, candidates, name",
          table.origin, name);
    if (!columns.emplace(name, columns.size()).second)
      throw DataError("{}: line 1: column {} occurs twice", table.origin, name);
  }
  for (const char* needed : {"nodes", "edges"})
    if (!columns.contains(needed))
      throw DataError("{}: line 1: no column {}; a list of graph sizes needs at least the columns nodes and edges",
                      table.origin, needed);
  return columns;
}

}  // namespace

data::FileCheck allowed_roots_check(const configs::DataSettings& settings) {
  if (settings.allowed_roots.empty()) return {};
  std::vector<fs::path> folders;
  for (const auto& folder : settings.allowed_roots)
    folders.push_back(resolved(folder, "folder of data.allowed_roots: "));
  return [folders = std::move(folders), named = settings.allowed_roots](const fs::path& file) {
    const auto real = resolved(file, "");
    if (std::ranges::any_of(folders, [&](const auto& folder) { return is_inside(real, folder); })) return;
    throw DataError(
        "{}: lies outside of the folders that may be read, "
        "expected a file in {} (data.allowed_roots; an agent's --data-root)",
        file == real ? file.string() : file.string() + " (really " + real.string() + ")", fmt::join(named, ", "));
  };
}

std::string to_string(Role role) { return role == Role::train ? "train" : role == Role::valid ? "valid" : "test"; }

std::vector<int64_t> DatasetIndex::with_role(Role role) const {
  std::vector<int64_t> found;
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].role == role) found.push_back(i);
  return found;
}

std::vector<data::GroupHeader> DatasetIndex::headers() const {
  std::vector<data::GroupHeader> all;
  for (const IndexEntry& entry : entries) all.push_back(entry.header);
  return all;
}

uint64_t DatasetIndex::fingerprint() const {
  uint64_t state = 0;
  for (const auto& entry : entries) state = mix_entry(state, entry);
  return state;
}

uint64_t DatasetIndex::training_fingerprint() const {
  uint64_t state = 0;
  for (const auto& entry : entries)
    if (entry.role != Role::test) state = mix_entry(state, entry);
  return state;
}

data::CandidateKind candidate_kind(configs::DataFormat format) {
  return static_cast<data::CandidateKind>(format);  // both enumerations have the same order
}

IndexEntry make_entry(data::GroupHeader header, Role role, const configs::Settings& settings) {
  IndexEntry entry{.header = std::move(header), .role = role};
  entry.parts = count_parts(entry.header, settings);
  entry.sample_cost = estimate_sample_cost(entry.header, settings);
  entry.sharing = entry.parts > 1 ? 1 : estimate_sharing(entry.header, settings);
  entry.samples = role == Role::train ? samples_per_epoch(entry.header, settings.sampler) : 0;
  return entry;
}

DatasetIndex make_dataset_index(const configs::Settings& settings, int64_t columns) {
  DatasetIndex dataset;
  const auto kind = candidate_kind(settings.data.format);
  const auto featurizer = data::make_featurizer(settings.data, columns);
  const auto add = [&](const std::vector<std::string>& patterns, Role role) {
    if (patterns.empty()) return;
    for (auto& header :
         data::list_groups(patterns, settings.data.root, kind, allowed_roots_check(settings.data), featurizer))
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

std::string find_overlap(const DatasetIndex& dataset, Role role) {
  constexpr size_t kNamed = 5;
  std::set<uint64_t> trained;
  for (const int64_t entry : dataset.with_role(Role::train)) trained.insert(dataset[entry].header.fingerprint);
  std::vector<std::string> names;
  size_t found = 0;
  const auto entries = dataset.with_role(role);
  for (const int64_t entry : entries) {
    const auto& header = dataset[entry].header;
    if (!trained.contains(header.fingerprint) || ++found > kNamed) continue;
    names.push_back(header.member < 0 ? header.file.string()
                                      : fmt::format("{} of {}", header.name, header.file.string()));
  }
  if (found == 0) return "";
  return fmt::format("{} of the {} groups of data.{} are trained on as well: {}{}", found, entries.size(),
                     to_string(role), fmt::join(names, ", "), found > kNamed ? ", …" : "");
}

void check_representation(const DatasetIndex& dataset, const configs::DataSettings& settings) {
  for (const auto& entry : dataset.entries) {
    const auto& header = entry.header;
    for (const auto other : {configs::Representation::loops, configs::Representation::curve}) {
      if (header.kind == data::CandidateKind::program && settings.representation != other &&
          (header.feature_count == data::program_columns(other) ||
           (other == configs::Representation::loops && data::are_loop_columns(header.feature_count)))) {
        throw DataError("{}: its programs have the {} node features of data.representation {}, expected {}",
                        header.file.string(), header.feature_count, word_of(other), word_of(settings.representation));
      }
    }
  }
}

std::string serialize(const DatasetIndex& dataset) {
  Json list = Json::array();
  for (const auto& entry : dataset.entries) {
    auto& row = list.emplace_back(Json::array());
    each_field(entry, [&](const auto& value) { row.push_back(value); });
  }
  return list.dump();
}

DatasetIndex parse_dataset_index(const std::string& bytes, const data::FeaturizerPtr& featurizer) {
  DatasetIndex dataset;
  for (const auto& row : Json::parse(bytes)) {
    auto& entry = dataset.entries.emplace_back();
    size_t at = 0;
    each_field(entry, [&](auto& value) { row[at++].get_to(value); });
    if (entry.header.kind == data::CandidateKind::program && entry.header.member < 0)
      entry.header.featurizer = featurizer;
  }
  return dataset;
}

void verify_files(const DatasetIndex& dataset, const std::vector<int64_t>& entries, const data::FileCheck& admit) {
  // Each file is listed once, however many groups it has.
  std::map<std::filesystem::path, std::map<std::pair<int64_t, std::string>, uint64_t>> seen;  // fingerprints
  for (const int64_t i : entries) {
    const auto& expected = dataset.entries[i].header;
    const auto [file, first] = seen.try_emplace(expected.file);
    if (first)
      for (const auto& header : data::list_groups({expected.file.string()}, {}, expected.kind, admit))
        file->second.emplace(std::pair(header.member, data::plain_name(header.name)), header.fingerprint);
    // A file alone has no names to tell apart, which the whole listing may have qualified.
    const auto found = file->second.find({expected.member, data::plain_name(expected.name)});
    if (found == file->second.end())
      throw DataError("{}: group {} is missing on this rank, rank 0 found it: the ranks see different files",
                      expected.file.string(), expected.name);
    if (found->second != expected.fingerprint)
      throw DataError(
          "{}: group {} has fingerprint {:016x} on this rank, {:016x} on rank 0: the ranks see different data",
          expected.file.string(), expected.name, found->second, expected.fingerprint);
  }
}

SizeList read_size_list(const std::filesystem::path& file, const configs::Settings& settings,
                        const SizeAssumptions& assumptions) {
  const auto table = read_csv(file);
  const auto columns = size_columns(table);
  SizeList list;
  list.assumed_configurable = !columns.contains("configurable");
  list.assumed_candidates = !columns.contains("candidates");
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const auto cell = [&](const char* column) { return trimmed(table.rows[row][columns.at(column)]); };
    const auto number = [&](const char* column, int64_t least, int64_t most) {
      const auto text = cell(column);
      const auto value = parse_number<int64_t>(text);
      if (!value || *value < least || *value > most)
        throw DataError("{}: line {}: {} is '{}', expected a whole number from {} to {}", table.origin,
                        table.lines[row], column, text, least, most);
      return *value;
    };
    data::GroupHeader header;
    header.file = file;
    header.name =
        columns.contains("name") ? cell("name") : fmt::format("{}:{}", file.stem().string(), table.lines[row]);
    header.graphs = 1;
    header.feature_count = data::kHloFeatures;
    header.nodes = number("nodes", 1, kMostNodes);
    header.edges = number("edges", 0, int64_t{1} << 40);
    header.configurable = list.assumed_configurable ? std::llround(header.nodes * assumptions.configurable_share)
                                                    : number("configurable", 0, header.nodes);
    header.candidates = list.assumed_candidates ? assumptions.candidates : number("candidates", 1, kMostNodes);
    header.fingerprint = random_bits({header.nodes, header.edges, header.configurable, header.candidates});
    list.dataset.entries.push_back(make_entry(std::move(header), Role::train, settings));
  }
  if (list.dataset.entries.empty())
    throw DataError("{}: no graphs; expected one line for each graph below the header", file.string());
  return list;
}

}  // namespace foretime::sharding
