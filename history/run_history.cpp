#include "history/run_history.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/files.h"

namespace foretime::history {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr std::string_view kAttempt = "attempt-";
constexpr int64_t kLargestStep = int64_t{1} << 53;
const std::set<std::string, std::less<>> kNoSeries = {"step", "straggler_rank"};

/// The folders of a job's attempts, oldest first.
std::vector<fs::path> attempts_of(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const auto& entry : files().list(folder)) {
    const auto name = entry.filename().string();
    int64_t fence = 0;
    if (!name.starts_with(kAttempt) ||
        std::from_chars(name.data() + kAttempt.size(), name.data() + name.size(), fence).ptr !=
            name.data() + name.size())
      continue;
    if (files().exists(entry / kMetricsFile)) found.emplace_back(fence, entry);
  }
  std::ranges::sort(found);
  std::vector<fs::path> folders;
  for (auto& [fence, entry] : found) folders.push_back(std::move(entry));
  return folders;
}

void add_lines(const fs::path& file, History& history) {
  const auto text = files().read(file);
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const auto json = Json::parse(rest.substr(0, end), nullptr, false);
    rest.remove_prefix(end);
    if (!json.is_object()) continue;
    const auto kind = json.value("kind", Json()), step = json.value("step", Json());
    if ((kind != "train" && kind != "eval") || !step.is_number_integer()) continue;
    const auto at = step.get<int64_t>();
    if (at < 0 || at > kLargestStep) continue;
    std::map<std::string, double> values;
    for (const auto& [name, value] : json.items()) {
      if (value.is_number() && !kNoSeries.contains(name)) values[name] = value.get<double>();
    }
    history.add(at, values);
  }
}

}  // namespace

bool is_run(const fs::path& folder) { return files().exists(folder / kMetricsFile) || !attempts_of(folder).empty(); }

fs::path file_of_run(const fs::path& folder, const std::string& name) {
  if (files().exists(folder / name)) return folder / name;
  const auto attempts = attempts_of(folder);
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    if (files().exists(*attempt / name)) return *attempt / name;
  }
  return {};
}

History read_run(const fs::path& folder) {
  History history;
  if (files().exists(folder / kMetricsFile)) {
    add_lines(folder / kMetricsFile, history);
    return history;
  }
  const auto attempts = attempts_of(folder);
  if (attempts.empty())
    throw HistoryError("{}: found neither {} nor attempt-N/{}, expected the directory of a run, or of a job",
                       folder.string(), kMetricsFile, kMetricsFile);
  for (const auto& attempt : attempts) add_lines(attempt / kMetricsFile, history);
  return history;
}

}  // namespace foretime::history
