#include "data/dataset/group_files.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/glob.h"
#include "base/read_input.h"
#include "data/files/file_form.h"
#include "data/files/npz_groups.h"
#include "data/files/packed.h"
#include "data/files/program_oddities.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/graphs/loop_graph_columns.h"

namespace foretime::data {
namespace {

namespace fs = std::filesystem;

/// Each format has a member that the others lack.
CandidateKind kind_of(const NpzReader& file) {
  if (file.has("node_config_feat") || file.has("node_config_ids")) return CandidateKind::layout;
  if (file.has("config_feat") || file.has("config_runtime_normalizers")) return CandidateKind::tile;
  if (file.has("graph_ptr") || file.has("type_names")) return CandidateKind::program;
  throw DataError("{}: no node_config_feat (layout), config_feat (tile) or graph_ptr (programs)",
                  file.archive().path().string());
}

GroupHeader npz_header(const fs::path& path) {
  const NpzReader file(path);
  GroupHeader header;
  header.file = path;
  header.name = path.stem().string();
  header.kind = kind_of(file);
  header.collection = collection_named(collection_in(path));
  header.fingerprint = file.fingerprint();
  switch (header.kind) {
    case CandidateKind::layout: describe_layout(file, header); break;
    case CandidateKind::tile: describe_tile(file, header); break;
    case CandidateKind::program: describe_program(file, header); break;
  }
  return header;
}

std::vector<GroupHeader> headers_of(const fs::path& file) {
  constexpr std::string_view kGroups = "groups (.npz, .foretime or HLO protobuf)";
  const auto form = expect_form(file, {FileForm::packed, FileForm::npz, FileForm::hlo}, kGroups);
  const bool unknown = form == FileForm::unknown && files().exists(file);
  if (form == FileForm::packed) return packed_headers(file);
  if (form == FileForm::hlo || (unknown && file.extension() == ".pb")) return hlo_headers(file);
  if (unknown && file.extension() != ".npz" && file.extension() != ".foretime")
    throw DataError(
        "{}: unknown form of file, expected {}; foretime data makes them: "
        "pack-records of tuning records, pack-tir of save_json text, pack-table of tables",
        file.string(), kGroups);
  return {npz_header(file)};
}

/// Files of other names are data only where they are named themselves.
bool is_data_file(const fs::path& path) {
  const auto ending = path.extension() == ".gz" ? path.stem().extension() : path.extension();
  return path.extension() == ".npz" || path.extension() == ".foretime" || ending == ".pb" || ending == ".hlo";
}

/// The data files below a folder, in the order of their names.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && is_data_file(entry.path())) files.push_back(entry.path());
  } catch (const fs::filesystem_error& error) {
    if (is_storage_failure(error.code().value())) throw_file_error(folder, "cannot be listed", error.code().value());
    throw DataError("{}: cannot be listed ({})", folder.string(), error.code().message());
  }
  if (files.empty())
    throw DataError("{}: no data in this folder, expected .npz, .foretime or .pb files below it", folder.string());
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> files_of(const std::string& pattern, const fs::path& root) {
  const auto found = paths_named(pattern, root);
  if (found.empty()) throw DataError("{}: no such file, expected data files or a folder", (root / pattern).string());
  std::vector<fs::path> files;
  for (const auto& path : found) {
    if (!foretime::files().is_folder(path)) files.push_back(path);
    else
      for (auto& file : files_below(path)) files.push_back(std::move(file));
  }
  return files;
}

NpzReader unchanged_npz(const GroupHeader& header) {
  NpzReader file(header.file);
  if (file.fingerprint() != header.fingerprint)
    throw DataError("{}: has changed since its groups were listed; start again with a file that does not change",
                    header.file.string());
  return file;
}

void set_featurizer(GroupHeader& header, const FeaturizerPtr& featurizer) {
  if (!featurizer) return;
  if (header.member < 0) {
    header.featurizer = featurizer;
    header.feature_count = featurizer->feature_count();
  } else if (header.feature_count != featurizer->feature_count() &&
             !(featurizer->feature_count() == kLoopGraphColumns && header.feature_count == kGpuGraphColumns)) {
    throw DataError(
        "{}: its programs have {} node features, expected {} of data.representation {}; "
        "pack them again with --representation {}",
        header.file.string(), header.feature_count, featurizer->feature_count(), featurizer->name(),
        featurizer->name());
  }
}

/// `groups` are sorted by name.
bool has_name_of_two_collections(const std::vector<GroupHeader>& groups) {
  for (size_t i = 1; i < groups.size(); ++i) {
    const auto &a = groups[i - 1], &b = groups[i];
    if (a.name == b.name && a.fingerprint != b.fingerprint && a.collection != b.collection) return true;
  }
  return false;
}

EvalIndices read_file(const std::filesystem::path& file) {
  const std::string origin = file.string();
  const auto text = read_input(file);
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: found no JSON ({}), expected {{\"graph\": [candidate ids]}}", origin, error.what());
  }
  if (!json.is_object() || json.empty())
    throw DataError("{}: found {}, expected an object with one graph or more: {{\"graph\": [candidate ids]}}", origin,
                    json.type_name());
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

std::vector<GroupHeader> list_groups(const std::vector<std::string>& patterns, const fs::path& root, CandidateKind kind,
                                     const FileCheck& admit, const FeaturizerPtr& featurizer) {
  std::vector<GroupHeader> groups;
  std::set<fs::path> seen;
  for (const auto& pattern : patterns) {
    for (const auto& file : files_of(pattern, root)) {
      if (!seen.insert(file.lexically_normal()).second) continue;
      if (admit) admit(file);
      for (auto& header : headers_of(file)) {
        if (header.kind != kind)
          throw DataError("{}: holds {} data, expected {}", file.string(), kind_name(header.kind), kind_name(kind));
        if (kind == CandidateKind::program) set_featurizer(header, featurizer);
        groups.push_back(std::move(header));
      }
    }
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::ranges::stable_sort(groups, by_name);
  if (has_name_of_two_collections(groups)) {
    for (auto& group : groups) group.name = qualified_name(group.collection, group.name);
    std::ranges::stable_sort(groups, by_name);
  }
  for (size_t i = 1; i < groups.size(); ++i)
    if (groups[i].name == groups[i - 1].name && groups[i].fingerprint != groups[i - 1].fingerprint)
      throw DataError("{}: group {} has other contents in {}, expected one group of a name{}", groups[i].file.string(),
                      groups[i].name, groups[i - 1].file.string(),
                      groups[i].kind == CandidateKind::program
                          ? "; pack the records of a workload from several files, or machines, in one pack-records"
                          : "");
  const auto same = [](const auto& a, const auto& b) { return a.name == b.name; };
  groups.erase(std::unique(groups.begin(), groups.end(), same), groups.end());
  return groups;
}

CandidateKind kind_of_files(const std::string& pattern, const std::filesystem::path& root) {
  const auto file = files_of(pattern, root).front();
  const auto headers = headers_of(file);
  if (headers.empty()) throw DataError("{}: found no group, expected at least one", file.string());
  return headers.front().kind;
}

Group load_group(const GroupHeader& header) {
  if (header.member >= 0) return load_packed(header);
  if (is_hlo_file(header.file)) return load_hlo_group(header);
  const NpzReader file = unchanged_npz(header);
  Group group = header.kind == CandidateKind::layout ? read_layout(file)
                : header.kind == CandidateKind::tile ? read_tile(file)
                                                     : read_program(file, header.featurizer.get());
  group.name = header.name;
  group.collection = header.collection;
  return group;
}

Group load_group(const GroupHeader& header, const LayoutSink& sink) {
  if (is_hlo_file(header.file)) return load_hlo_group(header, &sink);
  Group group = read_layout(unchanged_npz(header), sink);
  group.name = header.name;
  group.collection = header.collection;
  return group;
}

std::vector<std::string> oddities_of(const GroupHeader& header) {
  if (header.member >= 0 || header.kind != CandidateKind::program || header.file.extension() != ".npz") return {};
  return program_oddities(NpzReader(header.file));
}

GroupSummary load_summary(const GroupHeader& header) {
  return header.member >= 0 ? load_packed_summary(header) : summarize(load_group(header));
}

EvalIndices read_eval_indices(const std::filesystem::path& file) {
  if (!files().is_folder(file)) return read_file(file);
  EvalIndices all;
  for (const auto* name : {"xla_random", "xla_default", "nlp_random", "nlp_default"}) {
    const auto part = file / (std::string(name) + ".json");
    if (!files().exists(part)) continue;
    auto collection = "layout:" + std::string(name);
    collection[collection.find('_')] = ':';
    for (auto& [graph, ids] : read_file(part))
      all.emplace(qualified_name(collection_named(collection), graph), std::move(ids));
  }
  if (all.empty())
    throw DataError(
        "{}: found no evaluation indices in this folder, expected xla_random.json, "
        "xla_default.json, nlp_random.json or nlp_default.json in it",
        file.string());
  return all;
}

const std::vector<int64_t>* find_indices(const EvalIndices& indices, Collection collection, const std::string& name) {
  auto found = indices.find(qualified_name(collection, name));
  if (found == indices.end()) found = indices.find(plain_name(name));
  return found == indices.end() ? nullptr : &found->second;
}

}  // namespace foretime::data
