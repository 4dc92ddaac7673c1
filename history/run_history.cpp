#include "history/run_history.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/foreign_file.h"
#include "base/numbers.h"

namespace foretime::history {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr std::string_view kAttempt = "attempt-";
constexpr int64_t kLargestStep = int64_t{1} << 53;
const std::set<std::string, std::less<>> kNoSeries = {"step", "straggler_rank"};

/// The folders of a job's attempts below `folder`, oldest first.
std::vector<fs::path> attempts_of(const fs::path& folder, const fs::path& run) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const auto& entry : files().list(folder / run)) {
    const auto name = entry.filename().string();
    if (!name.starts_with(kAttempt)) continue;
    const auto fence = parse_number<int64_t>(std::string_view(name).substr(kAttempt.size()));
    if (fence && foreign_exists(folder, run / name / kMetricsFile)) found.emplace_back(*fence, run / name);
  }
  std::ranges::sort(found);
  std::vector<fs::path> attempts;
  for (auto& [fence, attempt] : found) attempts.push_back(std::move(attempt));
  return attempts;
}

void add_line(std::string_view line, History& history) {
  const auto json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  const auto kind = json.value("kind", Json()), step = json.value("step", Json());
  if ((kind != "train" && kind != "eval") || !step.is_number_integer()) return;
  const auto at = step.get<int64_t>();
  if (at < 0 || at > kLargestStep) return;
  std::map<std::string, double> values;
  for (const auto& [name, value] : json.items())
    if (value.is_number() && !kNoSeries.contains(name)) values[name] = value.get<double>();
  history.add(at, values);
}

/// Adds the lines of a file; returns false if there is no such file. Subtracts the file's size from `most_bytes`.
bool add_lines(const fs::path& folder, const fs::path& name, uint64_t& most_bytes, History& history) {
  const auto file = open_foreign(folder, name, most_bytes);
  read_foreign_lines(folder, name, most_bytes, [&](std::string_view line) { add_line(line, history); });
  if (file) most_bytes -= file->size();
  return file != nullptr;
}

}  // namespace

bool is_run(const fs::path& folder, const fs::path& run) {
  return foreign_exists(folder, run / kMetricsFile) || !attempts_of(folder, run).empty();
}

fs::path file_of_run(const fs::path& folder, const fs::path& run, const std::string& name) {
  if (foreign_exists(folder, run / name)) return run / name;
  const auto attempts = attempts_of(folder, run);
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt)
    if (foreign_exists(folder, *attempt / name)) return *attempt / name;
  return {};
}

History read_run(const fs::path& folder, const fs::path& run, uint64_t most_bytes) {
  History history;
  if (add_lines(folder, run / kMetricsFile, most_bytes, history)) return history;
  const auto attempts = attempts_of(folder, run);
  if (attempts.empty())
    throw HistoryError("{}: found neither {} nor attempt-N/{}, expected the directory of a run, or of a job",
                       (run.empty() ? folder : folder / run).string(), kMetricsFile, kMetricsFile);
  for (const auto& attempt : attempts) add_lines(folder, attempt / kMetricsFile, most_bytes, history);
  return history;
}

}  // namespace foretime::history
