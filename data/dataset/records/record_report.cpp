#include "data/dataset/records/record_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/kendall.h"

namespace foretime::data {
namespace {

using nlohmann::ordered_json;

/// Holds the values kept of a record.
struct Measured {
  uint32_t workload = 0;
  uint64_t schedule = 0;
  double cost = 0.0;
};

double spread(double smallest, double largest, double mean) { return (largest - smallest) / mean; }

/// Records of one workload: `first` to `last`, sorted by schedule.
void inspect_workload(const Measured* first, const Measured* last, RecordReport& report,
                      std::vector<double>& retest_spreads, std::vector<double>& ceilings) {
  std::vector<uint64_t> schedules;
  std::vector<double> costs;
  bool again = false;
  for (const Measured* at = first; at != last;) {
    const Measured* end = at;
    double smallest = at->cost, largest = at->cost, sum = 0.0;
    for (; end != last && end->schedule == at->schedule; ++end) {
      schedules.push_back(end->schedule);
      costs.push_back(end->cost);
      smallest = std::min(smallest, end->cost);
      largest = std::max(largest, end->cost);
      sum += end->cost;
    }
    ++report.distinct_schedules;
    if (end - at > 1) {
      again = true;
      ++report.measured_again;
      retest_spreads.push_back(spread(smallest, largest, sum / (end - at)));
    }
    at = end;
  }
  const auto [fastest, slowest] = std::minmax_element(costs.begin(), costs.end());
  report.mean_range += std::log10(*slowest / *fastest);
  const int64_t records = last - first;
  report.fewest_records = report.workloads == 0 ? records : std::min(report.fewest_records, records);
  report.most_records = std::max(report.most_records, records);
  ++report.workloads;
  if (!again) return;
  const double ceiling = noise_ceiling_tau(schedules, costs);
  if (std::isfinite(ceiling)) ceilings.push_back(ceiling);
}

ordered_json to_object(const RuntimeSummary& summary) {
  ordered_json json;
  json["min"] = summary.minimum;
  for (size_t q = 0; q < RuntimeSummary::kLevels.size(); ++q)
    json[fmt::format("q{:02.0f}", 100 * RuntimeSummary::kLevels[q])] = summary.quantiles[q];
  json["max"] = summary.maximum;
  json["mean"] = summary.mean;
  return json;
}

ordered_json to_object(const RecordReport& report) {
  ordered_json json;
  json["file"] = report.file;
  json["kind"] = "records";
  json["lines"] = report.counts.lines;
  json["skipped"] = report.counts.skipped;
  json["records"] = report.counts.records;
  json["failed"] = report.counts.failed();
  ordered_json errors = ordered_json::object();
  for (size_t i = 1; i < kRecordErrors; ++i)
    if (report.counts.errors[i] > 0) errors[record_error_name(static_cast<RecordError>(i))] = report.counts.errors[i];
  json["errors"] = errors;
  json["copies"] = report.copies;
  json["malformed"] = report.counts.malformed;
  ordered_json malformed = ordered_json::array();
  for (const auto& line : report.counts.first_malformed)
    malformed.push_back({{"line", line.line}, {"reason", line.reason}});
  json["first_malformed"] = malformed;
  json["versions"] = report.versions;
  json["targets"] = report.targets;
  json["workloads"] = report.workloads;
  json["records_per_workload"] = {{"min", report.fewest_records}, {"max", report.most_records}};
  json["steps"] = report.steps;
  json["longest_schedule"] = report.longest_schedule;
  json["cost_seconds"] = to_object(report.costs);
  json["log10_range"] = report.mean_range;
  json["with_repeats"] = report.with_repeats;
  json["repeat_spread"] = to_object(report.repeat_spread);
  json["distinct_schedules"] = report.distinct_schedules;
  json["measured_again"] = report.measured_again;
  json["retest_spread"] = to_object(report.retest_spread);
  json["noise_ceiling_tau"] = report.noise_ceiling;
  return json;
}

std::string quantiles(const RuntimeSummary& summary, const char* format, double factor) {
  std::string out = fmt::format("min {}", fmt::format(fmt::runtime(format), factor * summary.minimum));
  for (size_t q = 0; q < RuntimeSummary::kLevels.size(); ++q)
    out += fmt::format(", {:.0f} % {}", 100 * RuntimeSummary::kLevels[q],
                       fmt::format(fmt::runtime(format), factor * summary.quantiles[q]));
  return out + fmt::format(", max {}", fmt::format(fmt::runtime(format), factor * summary.maximum));
}

}  // namespace

RecordReport inspect_records(const std::filesystem::path& file) {
  RecordReport report;
  report.file = file.string();
  RecordReader reader(file);
  TuningRecord record;
  std::unordered_map<std::string, uint32_t> workloads;
  std::unordered_set<uint64_t> seen;
  std::vector<Measured> measured;
  std::vector<double> costs, repeat_spreads, retest_spreads, ceilings;
  while (reader.next(record)) {
    if (!seen.insert(record.measurement_hash()).second) {
      ++report.copies;
      continue;
    }
    const auto workload = workloads.emplace(record.workload_key, static_cast<uint32_t>(workloads.size())).first->second;
    ++report.versions[record.version];
    ++report.targets[record.target];
    const auto steps = std::ssize(record.schedule.steps);
    report.steps += steps;
    report.longest_schedule = std::max(report.longest_schedule, steps);
    const double cost = record.mean_cost();
    costs.push_back(cost);
    measured.push_back({workload, schedule_hash(record.schedule), cost});
    if (record.costs.size() < 2) continue;
    ++report.with_repeats;
    const auto [smallest, largest] = std::minmax_element(record.costs.begin(), record.costs.end());
    repeat_spreads.push_back(spread(*smallest, *largest, cost));
  }
  report.counts = reader.counts();
  if (report.counts.records + report.counts.failed() == 0)
    throw DataError("{}: no tuning record in {} lines{}", report.file, report.counts.lines,
                    report.counts.first_malformed.empty()
                        ? ""
                        : fmt::format("; line {} is no record: {}", report.counts.first_malformed.front().line,
                                      report.counts.first_malformed.front().reason));
  std::ranges::stable_sort(measured, [](const Measured& a, const Measured& b) {
    return std::pair(a.workload, a.schedule) < std::pair(b.workload, b.schedule);
  });
  for (size_t first = 0, last = 0; first < measured.size(); first = last) {
    while (last < measured.size() && measured[last].workload == measured[first].workload) ++last;
    inspect_workload(measured.data() + first, measured.data() + last, report, retest_spreads, ceilings);
  }
  if (report.workloads > 0) report.mean_range /= report.workloads;
  report.costs = summarize(std::move(costs));
  report.repeat_spread = summarize(std::move(repeat_spreads));
  report.retest_spread = summarize(std::move(retest_spreads));
  double sum = 0.0;
  for (const double ceiling : ceilings) sum += ceiling;
  report.noise_ceiling = ceilings.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / ceilings.size();
  return report;
}

std::string to_text(const RecordReport& report) {
  const RecordCounts& counts = report.counts;
  std::string out =
      fmt::format("{}: {} tuning records of {} workloads ({} to {} each), {} lines\n", report.file, counts.records,
                  report.workloads, report.fewest_records, report.most_records, counts.lines);
  out += fmt::format("  left out: {} failed measurements, {} malformed lines, {} empty lines and comments\n",
                     counts.failed(), counts.malformed, counts.skipped);
  if (report.copies > 0)
    out += fmt::format("  {} copies of other lines (equal in all, also in their time): each measurement counts once\n",
                       report.copies);
  for (size_t i = 1; i < kRecordErrors; ++i)
    if (counts.errors[i] > 0)
      out += fmt::format("    {}: {}\n", record_error_name(static_cast<RecordError>(i)), counts.errors[i]);
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, counts.first_malformed.size()); ++i)
    out +=
        fmt::format("    {}:{}: {}\n", report.file, counts.first_malformed[i].line, counts.first_malformed[i].reason);
  for (const auto& [version, records] : report.versions) out += fmt::format("  format {}: {}\n", version, records);
  for (const auto& [target, records] : report.targets) out += fmt::format("  target {}: {}\n", target, records);
  if (counts.records == 0) return out;
  out += fmt::format("  schedules: {} distinct, {:.1f} steps on average, {} at most\n", report.distinct_schedules,
                     static_cast<double>(report.steps) / (counts.records - report.copies), report.longest_schedule);
  out += fmt::format("  cost [ms]: {}\n", quantiles(report.costs, "{:.4g}", 1e3));
  out +=
      fmt::format("  slowest over fastest of a workload: {:.1f} (geometric mean)\n", std::pow(10.0, report.mean_range));
  if (report.with_repeats > 0)
    out += fmt::format("  spread of the repeats in {} records [%]: {}\n", report.with_repeats,
                       quantiles(report.repeat_spread, "{:.2f}", 100.0));
  if (report.measured_again > 0)
    out += fmt::format("  spread of {} schedules measured again [%]: {}\n  noise ceiling there: tau {:.4f}\n",
                       report.measured_again, quantiles(report.retest_spread, "{:.2f}", 100.0), report.noise_ceiling);
  return out;
}

std::string to_json(const std::vector<RecordReport>& reports) {
  ordered_json json = ordered_json::array();
  for (const RecordReport& report : reports) json.push_back(to_object(report));
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretime::data
