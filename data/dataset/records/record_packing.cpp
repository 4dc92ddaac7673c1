#include "data/dataset/records/record_packing.h"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/read_input.h"
#include "configs/load.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_graph.h"

namespace foretime::data {
namespace {

using Json = nlohmann::json;

Json read_json(const std::string& file) {
  const auto text = read_input(file);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw DataError("{}: no JSON ({})", file, error.what());
  }
}

constexpr int kDeepestList = 8;

void collect_lines(const Json& json, const std::string& origin, int depth, std::vector<int64_t>& lines) {
  if (depth > kDeepestList) throw DataError("{}: found lists {} deep, expected line numbers in them", origin, depth);
  if (json.is_number_integer()) {
    lines.push_back(json.get<int64_t>());
    if (lines.back() < 0) throw DataError("{}: line {}, expected 0 or more", origin, lines.back());
  } else if (json.is_array() || json.is_object()) {
    for (const auto& item : json) {  // members of objects may be words about the list beside them
      if (!json.is_object() || !item.is_string()) collect_lines(item, origin, depth + 1, lines);
    }
  } else {
    throw DataError("{}: found {}, expected line numbers, or lists or objects of line numbers", origin, json.dump());
  }
}

std::vector<int64_t> chosen_lines(const RecordPackRequest& request) {
  Json json = read_json(request.lines);
  std::string origin = request.lines;
  if (!request.member.empty()) {
    origin += ": " + request.member;
    if (!json.is_object() || !json.contains(request.member)) throw DataError("{}: no such member", origin);
    json = json.at(request.member);
  }
  std::vector<int64_t> lines;
  collect_lines(json, origin, 0, lines);
  if (lines.empty()) throw DataError("{}: no line numbers", origin);
  return lines;
}

using LineRanges = std::vector<std::pair<int64_t, int64_t>>;  // first, after the last

std::vector<int64_t> lines_of(const LineRanges& ranges) {
  std::vector<int64_t> lines;
  for (const auto& [first, last] : ranges)
    for (int64_t line = first; line < last; ++line) lines.push_back(line);
  return lines;
}

/// Takes the lines of networks, and leaves out all workloads of those that are never to be taken.
void choose_networks(const RecordPackRequest& request, RecordChoice& choice) {
  constexpr int64_t kMostLines = 100'000'000;
  const std::set<std::string> take(request.take.begin(), request.take.end());
  const std::set<std::string> never(request.never.begin(), request.never.end());
  std::set<std::string> seen;
  LineRanges taken, refused;
  try {
    for (const Json& part : read_json(request.networks)) {
      const std::string network = part.at("network");
      const int64_t first = part.at("first_line"), lines = part.at("lines");
      if (first < 0 || lines < 0 || first > kMostLines || lines > kMostLines - first)
        throw DataError("{}: network {}: found lines {} and first_line {}, expected 0 or more, together at most {}",
                        request.networks, network, lines, first, kMostLines);
      seen.insert(network);
      if (take.empty() ? !never.contains(network) : take.contains(network)) taken.emplace_back(first, first + lines);
      if (never.contains(network)) refused.emplace_back(first, first + lines);
    }
  } catch (const Json::exception& error) {
    throw DataError("{}: expected a list of objects with network, first_line and lines ({})", request.networks,
                    error.what());
  }
  for (const auto* names : {&take, &never}) {
    for (const auto& name : *names)
      if (!seen.contains(name))
        throw DataError("{}: no network {}, expected one of {}", request.networks, name, fmt::join(seen, ", "));
  }
  choice.lines = {lines_of(taken)};
  if (refused.empty()) return;
  RecordReader reader(request.in.at(0), {.lines = line_set(lines_of(refused), request.networks)});
  TuningRecord record;
  while (reader.next_with_failed(record)) choice.never.insert(record.workload_key);
}

RecordChoice choice_of(const RecordPackRequest& request) {
  RecordChoice choice;
  choice.most = request.most;
  choice.least = request.least;
  choice.failures = !request.without_failures;
  choice.seed = request.seed;
  if (!request.lines.empty()) choice.lines = {chosen_lines(request)};
  if (!request.networks.empty()) choose_networks(request, choice);
  return choice;
}

std::optional<Hardware> chosen_hardware(const std::vector<std::string>& assignments) {
  if (assignments.empty()) return std::nullopt;
  configs::Settings settings;
  for (const auto& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos) throw configs::SettingsError("--hardware {}: expected KEY=VALUE", assignment);
    configs::apply_override(settings, "data.hardware." + assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return hardware_of(settings.data.hardware);
}

}  // namespace

RecordPacking::RecordPacking(const RecordPackRequest& request, const PackShare& share)
    : request_(request),
      index_(index_records(request.in, DagTable(request.dags), choice_of(request),
                           {chosen_hardware(request.hardware), read_machines(request.targets, "")})) {
  if (index_.groups.empty())
    throw DataError(
        "{}: no workload has {} programs that ran: "
        "{} records, {} failed measurements and {} malformed lines, expected tuning records of workloads in {}{}",
        request.in.front().string(), request.least, index_.records + index_.skipped + index_.without_dag, index_.failed,
        index_.malformed, request.dags,
        index_.missing_keys.empty() ? "" : fmt::format(" (which has none for {})", index_.missing_keys.front()));
  options_.representation = request.representation;
  options_.memory = (static_cast<uint64_t>(request.memory_mib) << 20) / share.threads;
  const auto headers = headers_of(index_, request.representation);
  const int64_t workers = pack_workers(headers.size(), share.processes, {.threads = share.threads});
  parts_.emplace(request.out, headers, workers, share.token, share.process, share.processes);
}

void RecordPacking::pack() {
  parts_->pack([&](const std::filesystem::path& part, std::span<const int64_t> groups) {
    const auto packed = pack_records(part, index_, groups, options_);
    const std::lock_guard lock(mutex_);
    counts_.programs += packed.programs;
    counts_.refused += packed.refused;
    counts_.skipped += packed.skipped;
    counts_.failed += packed.failed;
    if (counts_.first_refusal.empty()) counts_.first_refusal = packed.first_refusal;
  });
}

std::string RecordPacking::join() const {
  parts_->join();
  auto text = fmt::format("{}: {} workloads, {} programs, {} bytes\n", request_.out, index_.groups.size(),
                          index_.records - counts_.refused - counts_.skipped, std::filesystem::file_size(request_.out));
  if (index_.failed > 0)
    text += index_.failures
                ? fmt::format("  of process 0, {} programs failed: they rank behind all that ran\n", counts_.failed)
                : fmt::format("  {} failed measurements left out\n", index_.failed);
  if (counts_.skipped > 0)
    text +=
        fmt::format("  {} records of workloads none of whose programs ran left out by process 0\n", counts_.skipped);
  if (index_.malformed > 0)
    text += fmt::format("  {} lines that are no records left out, the first: {}\n", index_.malformed,
                        index_.first_malformed);
  if (index_.copies > 0) text += fmt::format("  {} copies of other lines left out\n", index_.copies);
  if (index_.skipped > 0)
    text += fmt::format("  {} records of workloads with fewer than {} left out\n", index_.skipped, request_.least);
  if (index_.without_dag > 0)
    text += fmt::format("  {} records without a DAG in {} left out, among them of {}\n", index_.without_dag,
                        request_.dags, index_.missing_keys.front());
  if (!index_.unknown_machines.empty())
    text += fmt::format(
        "  records are of machines that no file of --targets describes ({}): their caches and rates are guessed\n",
        fmt::join(index_.unknown_machines, ", "));
  if (counts_.refused > 0)
    text += fmt::format("  {} records that cannot be replayed left out by process 0, the first: {}\n", counts_.refused,
                        counts_.first_refusal);
  return text;
}

}  // namespace foretime::data
