#include "cli/light/workload_texts.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/message.h"
#include "configs/load.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/tir/tir_file.h"

namespace foretime::cli {
namespace {

/// Returns a key without quotes and blanks, like the group names of data::index_records.
std::string plain_key(const std::string& key) {
  std::string name;
  for (const char c : key)
    if (c != '"' && c != ' ') name += c;
  return name;
}

}  // namespace

void Warnings::print(const std::string& origin, const char* what) const {
  if (count > 0) print_message("foretime: {}: {} {}, the first: {}\n", origin, count, what, first);
}

std::string to_string(const SourceLine& place) {
  return fmt::format("{}:{}", place.file, std::max<int64_t>(1, place.line));
}

void UnknownMachines::add(const data::Machines& known, const Workload& workload) {
  for (const auto& target : workload.targets) names_.insert(known.unknown(target));
  names_.erase("");
}

void UnknownMachines::print(const std::string& origin, const char* remedy) const {
  if (names_.empty()) return;
  print_message(
      "foretime: {}: records are from machines that are not in the model ({}): their caches and rates are guessed; "
      "describe them (foretime target measure; GPUs by hand) {}\n",
      origin, fmt::join(names_, ", "), remedy);
}

NamedMachines::NamedMachines(const std::vector<std::string>& files) : machines_(data::read_machines(files, "")) {}

void NamedMachines::add(const Workload& workload) {
  for (const auto& target : workload.targets)
    if (const auto* machine = machines_.find(target); machine != nullptr) found_.insert(machine->name);
}

void NamedMachines::print(const std::string& origin) const {
  for (const auto& machine : machines_.all())
    if (!found_.contains(machine.name))
      print_message("foretime: {}: found no record from machine {} of --targets (-model={}, or a target of its file)\n",
                    origin, machine.name, machine.name);
}

std::vector<std::string> named_files(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (const auto& file : files) {
    const auto found = paths_named(file, ".");
    if (found.empty()) throw DataError("{}: found no file of this name or pattern", file);
    for (const auto& path : found) all.push_back(path.string());
  }
  return all;
}

void expect_dags(const std::string& dags, const std::string& file) {
  if (dags.empty())
    throw configs::SettingsError(
        "{}: tuning records hold schedules without programs; "
        "give --dags FILE, the compute DAGs of their workloads (docs/explanations/schedules.md)",
        file);
}

void read_records(const std::string& file, const std::string& name, Workloads& workloads) {
  data::LineSource lines(file);
  data::RecordParser parser;
  data::TuningRecord record;
  Warnings warnings;
  while (const auto line = lines.next()) {
    if (line->text.empty() || line->text[0] == '#' || line->text[0] == ' ') continue;
    const SourceLine place{file, lines.line_number()};
    try {
      if (line->too_long) throw DataError("found a line longer than a record may be");
      parser.parse(line->text, record, false);
    } catch (const DataError& error) {
      warnings.add(fmt::format("{}: {}", to_string(place), error.what()));
      continue;
    }
    auto& workload = workloads.of(record.workload_key);
    if (workload.name.empty()) workload.name = plain_key(record.workload_key);
    workload.texts.emplace_back(line->text);
    workload.targets.insert(record.target);
    const auto number = std::to_string(place.line - 1);
    workload.ids.push_back(name.empty() ? number : fmt::format("{}:{}", name, number));
    workload.places.push_back(place);
  }
  warnings.print(file, "lines skipped");
}

void read_texts(const std::string& file, const std::string& member, Workloads& workloads) {
  data::TirFile source(file);
  data::TirRecord record;
  bool any = false;
  while (source.next(record)) {
    any = true;
    const auto stem = std::filesystem::path(file).stem().stem().string();
    auto& workload = workloads.of(record.workload.empty() ? stem : record.workload);
    workload.name = workload.key;
    workload.places.push_back({file, record.line});
    workload.texts.push_back(data::choose_text(record, member, fmt::format("{}: {}", file, record.id)));
    workload.ids.push_back(record.id);
  }
  if (!any) throw DataError("{}: found no programs, expected save_json text of at least one", file);
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

}  // namespace foretime::cli
