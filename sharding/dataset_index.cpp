#include "sharding/dataset_index.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counter_random.h"
#include "data/frontends/loops/featurizers.h"
#include "data/frontends/loops/program_graphs.h"
#include "sharding/confinement.h"
#include "sharding/cost.h"

namespace foretime::sharding {
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
    for (auto& header : data::list_groups(patterns, settings.data.root, kind, confinement(settings.data), featurizer)) {
      dataset.entries.push_back(make_entry(std::move(header), role, settings));
    }
  };
  add(settings.data.train, Role::train);
  add(settings.data.valid, Role::valid);
  add(settings.data.test, Role::test);
  for (const auto& entry : dataset.entries) {
    const auto expected = dataset.entries.front().header.feature_count;
    if (entry.header.feature_count != expected) {
      throw DataError(fmt::format("{}: {} node features, expected {} as in {}", entry.header.file.string(),
                                  entry.header.feature_count, expected, dataset.entries.front().header.file.string()));
    }
  }
  return dataset;
}

void check_representation(const DatasetIndex& dataset, const configs::DataSettings& settings) {
  for (const auto& [header, role, parts, cost, samples] : dataset.entries) {
    for (const auto other : {configs::Representation::loops, configs::Representation::curve}) {
      if (header.kind == data::CandidateKind::program && settings.representation != other &&
          header.feature_count == data::program_columns(other)) {
        throw DataError(fmt::format("{}: its programs have the {} node features of data.representation {}, expected {}",
                                    header.file.string(), header.feature_count, word_of(other),
                                    word_of(settings.representation)));
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
    if (found == file->second.end()) {
      throw DataError(
          fmt::format("{}: group {} is missing here, the coordinator found it", expected.file.string(), expected.name));
    }
    if (found->second != expected.fingerprint) {
      throw DataError(
          fmt::format("{}: group {} has fingerprint {:016x} here, {:016x} on rank 0: the ranks see different data",
                      expected.file.string(), expected.name, found->second, expected.fingerprint));
    }
  }
}

}  // namespace foretime::sharding
