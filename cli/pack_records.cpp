#include "cli/pack_records.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/threads.h"
#include "cli/dags_option.h"
#include "configs/load.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/program_forms.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::json;

Json read_json(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw DataError(fmt::format("{}: cannot be opened", file));
  try {
    return Json::parse(in);
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: no JSON ({})", file, error.what()));
  }
}

constexpr int kDeepestList = 8;

void collect_lines(const Json& json, const std::string& origin, int depth, std::vector<int64_t>& lines) {
  if (depth > kDeepestList)
    throw DataError(fmt::format("{}: lists in lists in lists, expected line numbers in them", origin));
  if (json.is_number_integer()) {
    lines.push_back(json.get<int64_t>());
  } else if (json.is_array() || json.is_object()) {
    for (const auto& item : json) {
      if (!item.is_string()) collect_lines(item, origin, depth + 1, lines);
    }
  } else {
    throw DataError(fmt::format("{}: {}, expected line numbers, or lists or objects of them", origin, json.dump()));
  }
}

std::vector<int64_t> chosen_lines(const PackRecordsArguments& arguments) {
  Json json = read_json(arguments.lines);
  std::string origin = arguments.lines;
  if (!arguments.member.empty()) {
    origin += ": " + arguments.member;
    if (!json.is_object() || !json.contains(arguments.member))
      throw DataError(fmt::format("{}: no such member", origin));
    json = json.at(arguments.member);
  }
  std::vector<int64_t> lines;
  collect_lines(json, origin, 0, lines);
  return lines;
}

using LineRanges = std::vector<std::pair<int64_t, int64_t>>;  // first, after the last

std::vector<int64_t> lines_of(const LineRanges& ranges) {
  std::vector<int64_t> lines;
  for (const auto& [first, last] : ranges) {
    for (int64_t line = first; line < last; ++line) lines.push_back(line);
  }
  return lines;
}

/// Takes the lines of networks, and leaves out all workloads of those that are never to be taken.
void choose_networks(const PackRecordsArguments& arguments, data::RecordChoice& choice) {
  constexpr int64_t kMostLines = 100'000'000;
  const std::set<std::string> take(arguments.take.begin(), arguments.take.end());
  const std::set<std::string> never(arguments.never.begin(), arguments.never.end());
  std::set<std::string> seen;
  LineRanges taken, refused;
  try {
    for (const Json& part : read_json(arguments.networks)) {
      const std::string network = part.at("network");
      const int64_t first = part.at("first_line"), lines = part.at("lines");
      if (first < 0 || lines < 0 || first > kMostLines || lines > kMostLines - first)
        throw DataError(
            fmt::format("{}: {} lines from {} on, expected lines of a file", arguments.networks, lines, first));
      seen.insert(network);
      if (take.empty() ? !never.contains(network) : take.contains(network)) taken.emplace_back(first, first + lines);
      if (never.contains(network)) refused.emplace_back(first, first + lines);
    }
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: expected a list of objects with network, first_line and lines ({})",
                                arguments.networks, error.what()));
  }
  for (const auto* names : {&take, &never}) {
    for (const auto& name : *names) {
      if (!seen.contains(name))
        throw DataError(
            fmt::format("{}: no network {}, expected one of {}", arguments.networks, name, fmt::join(seen, ", ")));
    }
  }
  choice.lines = {lines_of(taken)};
  if (refused.empty()) return;
  data::RecordReader reader(arguments.in.at(0), {.lines = data::line_set(lines_of(refused), arguments.networks)});
  data::TuningRecord record;
  while (reader.next_with_failed(record)) choice.never.insert(record.workload_key);
}

data::RecordChoice choice_of(const PackRecordsArguments& arguments) {
  data::RecordChoice choice;
  choice.most = arguments.most;
  choice.least = arguments.least;
  choice.seed = arguments.seed;
  if (!arguments.lines.empty()) choice.lines = {chosen_lines(arguments)};
  if (!arguments.networks.empty()) choose_networks(arguments, choice);
  return choice;
}

void say(const PackRecordsArguments& arguments, const data::RecordIndex& index, const data::RecordPackCounts& counts) {
  std::cout << fmt::format("{}: {} workloads, {} programs, {} bytes\n", arguments.out, index.groups.size(),
                           index.records - counts.refused, std::filesystem::file_size(arguments.out));
  if (index.failed > 0) std::cout << fmt::format("  {} failed measurements left out\n", index.failed);
  if (index.malformed > 0) std::cout << fmt::format("  {} lines that are no records left out\n", index.malformed);
  if (index.left_out > 0)
    std::cout << fmt::format("  {} records of workloads with fewer than {} left out\n", index.left_out,
                             arguments.least);
  if (index.without_dag > 0) {
    std::cout << fmt::format("  {} records without a DAG in {} left out, among them of {}\n", index.without_dag,
                             arguments.dags, index.missing_keys.front());
  }
  if (counts.refused > 0)
    std::cout << fmt::format("  {} records that cannot be replayed left out by process 0, the first: {}\n",
                             counts.refused, counts.first_refusal);
}

std::optional<data::Hardware> hardware_of(const std::vector<std::string>& assignments) {
  if (assignments.empty()) return std::nullopt;
  configs::Settings settings;
  for (const auto& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      throw configs::SettingsError(fmt::format("--hardware {}: expected KEY=VALUE", assignment));
    configs::apply_override(settings, "data.hardware." + assignment.substr(0, equals), assignment.substr(equals + 1));
  }
  return data::hardware_of(settings.data.hardware);
}

}  // namespace

void pack_record_share(const PackRecordsArguments& arguments, const PackShare& share) {
  data::RecordIndex index;
  data::RecordPackOptions options;
  share.together([&] {
    index = data::index_records(arguments.in, data::DagTable(arguments.dags), choice_of(arguments));
    if (index.groups.empty()) {
      throw DataError(fmt::format(
          "{}: no workload with {} records or more among {} records ({} failed measurements, {} malformed lines), "
          "expected tuning records of workloads in {}{}",
          arguments.in.front().string(), arguments.least, index.records + index.left_out + index.without_dag,
          index.failed, index.malformed, arguments.dags,
          index.missing_keys.empty() ? "" : fmt::format(" (which has none for {})", index.missing_keys.front())));
    }
    options.hardware = hardware_of(arguments.hardware);
  });
  options.representation = arguments.representation;
  options.memory = (static_cast<uint64_t>(arguments.memory_mib) << 20) / static_cast<uint64_t>(share.threads);
  const auto headers = data::headers_of(index, arguments.representation);
  const int64_t workers = data::pack_workers(headers.size(), share.processes, {.threads = share.threads});
  data::RecordPackCounts counts;
  std::mutex mutex;
  const data::PackParts parts(arguments.out, headers, workers, share.token, share.process, share.processes);
  share.together([&] {
    parts.pack([&](const std::filesystem::path& part, std::span<const int64_t> groups) {
      const auto packed = data::pack_records(part, index, groups, options);
      const std::lock_guard lock(mutex);
      counts.programs += packed.programs;
      counts.refused += packed.refused;
      if (counts.first_refusal.empty()) counts.first_refusal = packed.first_refusal;
    });
  });
  share.together([&] {
    if (share.process != 0) return;
    parts.join();
    say(arguments, index, counts);
  });
}

void pack_records_alone(const PackRecordsArguments& arguments) {
  PackShare share;
  share.threads = threads_to_use(arguments.threads);
  share.token = std::to_string(::getpid());
  pack_record_share(arguments, share);
}

void add_pack_records(CLI::App& data_command, const RecordPackRunner& run) {
  auto* command = data_command.add_subcommand(
      "pack-records",
      "Pack auto_scheduler tuning records into a collection of loop graphs, a group a workload; mpirun shares the "
      "workloads among ranks");
  const auto arguments = std::make_shared<PackRecordsArguments>();
  command->add_option("out", arguments->out, "Collection to write (.foretime)")->required()->type_name("OUT");
  command->add_option("in", arguments->in, "Tuning records: JSON lines, plain or gzip")->required()->type_name("IN");
  add_dags_option(*command, arguments->dags, "Compute DAGs of the workloads (JSON lines, plain or gzip)")->required();
  auto* lines =
      command->add_option("--lines", arguments->lines,
                          "JSON with the 0-based lines of the first file to take: a list, or an object of lists");
  command->add_option("--member", arguments->member, "Member of that JSON")->needs(lines);
  auto* networks =
      command
          ->add_option("--networks", arguments->networks,
                       "JSON that says which lines of the first file belong to which network: a list of objects with "
                       "network, first_line and lines")
          ->excludes(lines);
  command->add_option("--take", arguments->take, "Networks to take; all but --never if left out")
      ->needs(networks)
      ->delimiter(',');
  command
      ->add_option("--never", arguments->never,
                   "Networks whose workloads are left out, also where other networks have them")
      ->needs(networks)
      ->delimiter(',');
  command->add_option("--most", arguments->most, "Records of a workload, chosen at random; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--least", arguments->least, "Workloads with fewer records are left out")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Of the choice of records")->capture_default_str();
  command
      ->add_option("--hardware", arguments->hardware,
                   "KEY=VALUE: data.hardware of the machine that was measured; known from each record if left out")
      ->delimiter(',');
  command->add_option("--threads", arguments->threads, "Workers of each rank; 0: cores / ranks on this host")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--memory", arguments->memory_mib, "MiB that a rank may take for programs being packed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([arguments, run] { run(*arguments); });
}

}  // namespace foretime::cli
