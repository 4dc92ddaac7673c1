#include "data/frontends/tir/tir_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "base/error.h"
#include "data/files/file_form.h"
#include "data/files/line_source.h"
#include "data/files/packed.h"

namespace foretime::data {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxLineBytes = size_t{1} << 28;
constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Lines of a file, appended to one text with their ends.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : name_(path.string()), source_(path, kMaxLineBytes) {}

  const std::string& name() const { return name_; }

  /// Appends the next line to `text`; false where there is none.
  bool append(std::string& text) {
    const auto line = source_.next();
    if (!line) return false;
    if (line->too_long || text.size() + line->text.size() > kMaxLineBytes)
      throw DataError("{}: a text of more than {} bytes", name_, kMaxLineBytes);
    text.append(line->text).push_back('\n');
    return true;
  }

 private:
  std::string name_;
  LineSource source_;
};

std::string text_of(dom::element value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  return simdjson::minify(value);
}

}  // namespace

struct TirFile::Stream {
  explicit Stream(const std::filesystem::path& path) : lines(path) {}

  bool next(TirRecord& record) {
    record = {};
    buffer.clear();
    while (trimmed(buffer).empty()) {
      buffer.clear();
      if (!lines.append(buffer)) return false;
      ++line;
    }
    // TVM breaks its text into lines, the first of which is a brace.
    if (line == 1 && !trimmed(buffer).ends_with('}')) {
      while (lines.append(buffer)) {
      }
      record.id = std::filesystem::path(lines.name()).filename().string();
      record.texts.emplace_back("", buffer);
      return true;
    }
    record.line = line;
    read_line(record);
    return true;
  }

  void read_line(TirRecord& record) {
    const auto fail = [&](const std::string& what) { throw DataError("{}:{}: {}", lines.name(), line, what); };
    dom::object object;
    if (const auto error = parser.parse(buffer.data(), buffer.size()).get(object))
      fail(fmt::format("expected a JSON object: {}", simdjson::error_message(error)));
    record.id = fmt::format("line {}", line);
    dom::element nodes;
    if (object["nodes"].get(nodes) == simdjson::SUCCESS) {
      record.texts.emplace_back("", buffer);
      return;
    }
    bool failed = false;
    for (const auto& [name, value] : object) {
      std::string_view text;
      if (name == "id" || name == "line") {
        record.id = text_of(value);
      } else if (name == "workload" || name == "workload_key") {
        record.workload = text_of(value);
      } else if (name == "runtime") {
        if (value.get(record.runtime) != simdjson::SUCCESS || !std::isfinite(record.runtime) || record.runtime < 0.0)
          fail("runtime: expected seconds, a number of 0 or more");
      } else if (name == "failed") {
        if (value.get(failed) != simdjson::SUCCESS) fail("failed: expected true or false");
      } else if (value.get(text) == simdjson::SUCCESS && trimmed(text).starts_with('{')) {
        record.texts.emplace_back(name, text);
      }
    }
    if (failed) record.runtime = std::numeric_limits<double>::infinity();
    if (record.texts.empty()) fail("no member holds text that tvm.ir.save_json wrote");
  }

  Lines lines;
  dom::parser parser;
  std::string buffer;
  int64_t line = 0;
};

TirFile::TirFile(const std::filesystem::path& path) : stream_(std::make_unique<Stream>(path)) {
  expect_form(path, {FileForm::save_json}, "text of tvm.ir.save_json, or JSON lines with it");
}
TirFile::~TirFile() = default;
bool TirFile::next(TirRecord& record) { return stream_->next(record); }

const std::string& choose_text(const TirRecord& record, const std::string& member, const std::string& origin) {
  std::string names;
  for (const auto& [name, text] : record.texts) {
    if (name == member || (member.empty() && record.texts.size() == 1)) return text;
    names += names.empty() ? name : ", " + name;
  }
  throw DataError(
      member.empty()
          ? fmt::format("{}: found several texts ({}), expected the name of one of them (--member)", origin, names)
          : fmt::format("{}: no text '{}' (--member), expected one of {}", origin, member, names));
}

namespace {

/// Collects the programs of a workload.
struct Workload {
  std::string target;
  ProgramNodes trees;
  std::vector<double> runtimes;
  std::vector<std::string> ids;
};

Group to_group(const std::string& name, Workload workload, const Featurizer* featurizer) {
  Group group;
  group.name = name;
  group.kind = CandidateKind::program;
  group.unit = RuntimeUnit::seconds;
  group.candidates = workload.trees.graphs();
  if (std::ranges::find(workload.runtimes, 0.0) != workload.runtimes.end()) std::ranges::fill(workload.runtimes, 0.0);
  group.graphs = featurizer ? featurizer->graphs(std::move(workload.trees), {}, workload.target)
                            : program_graphs(std::move(workload.trees));
  group.runtimes = std::move(workload.runtimes);
  group.candidate_ids = std::move(workload.ids);
  return group;
}

/// Workloads in the order of their first records.
class Workloads {
 public:
  Workloads(const std::string& member, const TirLimits& limits) : member_(member), reader_(limits) {}

  /// `prefix`: of the ids.
  void read(const std::filesystem::path& path, const std::string& prefix) {
    TirFile file(path);
    TirRecord record;
    while (file.next(record)) {
      const std::string name = record.workload.empty() ? path.stem().stem().string() : record.workload;
      const auto [place, fresh] = places_.try_emplace(name, all_.size());
      if (fresh) all_.emplace_back(name, Workload());
      Workload& workload = all_[place->second].second;
      const std::string origin = fmt::format("{}: {}", path.string(), record.id);
      const int64_t trees = reader_.read(choose_text(record, member_, origin), origin, workload.trees);
      if (trees != 1) throw DataError("{}: {} functions, expected one program a record", origin, trees);
      if (fresh) workload.target = reader_.target();
      if (workload.target != reader_.target())
        throw DataError("{}: target '{}', expected '{}' as in workload {}", origin, reader_.target(), workload.target,
                        name);
      if (!std::in_range<int32_t>(workload.trees.nodes()))
        throw DataError("{}: workload {}: more than 2^31 - 1 nodes", path.string(), name);
      workload.runtimes.push_back(record.runtime);
      workload.ids.push_back(prefix + record.id);
    }
  }

  std::vector<Group> groups(const Featurizer* featurizer) && {
    std::vector<Group> groups;
    for (auto& [name, workload] : all_) groups.push_back(to_group(name, std::move(workload), featurizer));
    return groups;
  }

 private:
  const std::string& member_;
  TirReader reader_;
  std::vector<std::pair<std::string, Workload>> all_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

std::vector<Group> read_tir_groups(const std::vector<std::filesystem::path>& paths, const std::string& member,
                                   const TirLimits& limits, const Featurizer* featurizer) {
  Workloads workloads(member, limits);
  for (const auto& path : paths) workloads.read(path, paths.size() > 1 ? path.stem().stem().string() + ":" : "");
  auto groups = std::move(workloads).groups(featurizer);
  if (groups.empty()) throw DataError("{}: no programs", paths.empty() ? "" : paths.front().string());
  return groups;
}

int64_t pack_tir(const std::filesystem::path& out, const std::vector<std::filesystem::path>& files,
                 const std::string& member, const TirLimits& limits) {
  PackedWriter writer(out);
  int64_t groups = 0;
  for (const auto& file : files) {
    for (const Group& group : read_tir_groups({file}, member, limits)) {
      writer.add(group);
      ++groups;
    }
  }
  writer.finish();
  return groups;
}

namespace {

constexpr size_t kFailuresShown = 5;

template <class Names, class Counts>
std::vector<std::pair<std::string, int64_t>> by_count(const Names& names, const Counts& counts) {
  std::vector<std::pair<std::string, int64_t>> rows;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) rows.emplace_back(names[i], counts[i]);
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

std::string join(const std::vector<std::pair<std::string, int64_t>>& rows) {
  std::string text;
  for (const auto& [name, count] : rows) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text.empty() ? "none" : text;
}

std::string versions_of(const TirSummary& summary) {
  std::string text;
  for (const auto& [version, count] : summary.versions)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", version.empty() ? "not named" : version, count);
  return text;
}

void note_failure(TirReport& report, const std::string& message) {
  ++report.failures;
  if (report.first_failures.size() < kFailuresShown) report.first_failures.push_back(message);
}

}  // namespace

TirReport inspect_tir(const std::filesystem::path& path, const TirLimits& limits) {
  TirReport report;
  report.file = path.string();
  std::map<std::string, TirReader> readers;
  std::set<std::string> workloads;
  TirFile file(path);
  TirRecord record;
  for (bool more = true; more;) {
    try {
      more = file.next(record);
    } catch (const DataError& error) {
      // A line that is nothing stands alone; a stream that is damaged has no next line.
      note_failure(report, error.what());
      more = record.line > 0;
      continue;
    }
    if (!more) break;
    ++report.records;
    report.labelled += record.runtime > 0.0;
    if (!record.workload.empty()) workloads.insert(record.workload);
    for (const auto& [member, text] : record.texts) {
      const std::string origin =
          fmt::format("{}: {}{}{}", path.string(), record.id, member.empty() ? "" : ": ", member);
      try {
        ProgramNodes trees;
        readers.try_emplace(member, limits).first->second.read(text, origin, trees);
      } catch (const DataError& error) {
        note_failure(report, error.what());
      }
    }
  }
  report.workloads = workloads.size();
  for (const auto& [member, reader] : readers)
    if (reader.summary().documents > 0) report.members[member] = reader.summary();
  if (report.members.empty())
    throw DataError(report.first_failures.empty() ? fmt::format("{}: no programs", report.file)
                                                  : report.first_failures.front());
  return report;
}

std::string to_text(const TirReport& report) {
  std::string text = fmt::format("{}: TVM save_json text, {} records", report.file, report.records);
  if (report.workloads > 0) text += fmt::format(" of {} workloads", report.workloads);
  text += report.labelled > 0 ? fmt::format(", {} with run times\n", report.labelled) : ", no run times\n";
  for (const auto& [member, summary] : report.members) {
    text += fmt::format("  {}: {} syntax trees in {} texts\n", member.empty() ? "programs" : member, summary.trees,
                        summary.documents);
    text += fmt::format("    TVM            {}\n", versions_of(summary));
    text += fmt::format("    nodes          {} in the trees ({} stood in the texts); largest {}, deepest {} levels\n",
                        summary.tree_nodes, summary.dag_nodes, summary.largest_tree, summary.deepest_tree);
    text += fmt::format("    node types     {}\n", join(by_count(tir_type_names(), summary.node_types)));
    text += fmt::format("    calls          {}\n", join(by_count(call_op_names(), summary.call_ops)));
    text += fmt::format("    unknown types  {}\n", join({summary.unknown_types.begin(), summary.unknown_types.end()}));
  }
  if (report.failures > 0) text += fmt::format("  could not be read: {}\n", report.failures);
  for (const auto& message : report.first_failures) text += fmt::format("    {}\n", message);
  return text;
}

std::string to_json(const TirReport& report) {
  nlohmann::ordered_json json;
  json["file"] = report.file;
  json["kind"] = "tir";
  json["records"] = report.records;
  json["workloads"] = report.workloads;
  json["labelled"] = report.labelled;
  for (const auto& [member, summary] : report.members) {
    nlohmann::ordered_json one;
    one["texts"] = summary.documents;
    one["trees"] = summary.trees;
    one["versions"] = summary.versions;
    one["dag_nodes"] = summary.dag_nodes;
    one["tree_nodes"] = summary.tree_nodes;
    one["largest_tree"] = summary.largest_tree;
    one["deepest_tree"] = summary.deepest_tree;
    for (const auto& [name, count] : by_count(tir_type_names(), summary.node_types)) one["node_types"][name] = count;
    for (const auto& [name, count] : by_count(call_op_names(), summary.call_ops)) one["calls"][name] = count;
    one["unknown_types"] = summary.unknown_types;
    json["members"][member] = one;
  }
  json["failures"] = report.failures;
  json["first_failures"] = report.first_failures;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretime::data
