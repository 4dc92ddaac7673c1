#include "cli/board/run_api.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/text.h"
#include "cli/board/rankings.h"
#include "history/run_history.h"
#include "server/http.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using server::HttpError;

constexpr size_t kMostRuns = 1000;
constexpr int kDepth = 4;  // of run directories below the root: experiments have trials in folders of folders
constexpr uintmax_t kMostText = 1 << 20;

struct Found {
  std::string name;
  fs::file_time_type modified;
};

void find_runs(const fs::path& folder, const fs::path& root, int depth, std::vector<Found>& found) {
  std::error_code failure;
  if (history::is_run(folder)) {
    auto newest = fs::last_write_time(folder, failure);
    if (const auto time = fs::last_write_time(folder / "metrics.jsonl", failure); !failure)
      newest = std::max(newest, time);
    found.push_back({folder == root ? "." : folder.lexically_relative(root).string(), newest});
    return;
  }
  if (depth == 0) return;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, failure)) {
    if (entry.is_directory(failure) && !entry.is_symlink(failure) && !entry.path().filename().string().starts_with("."))
      find_runs(entry.path(), root, depth - 1, found);
  }
}

/// The text of a file of a run; empty where there is none.
std::string text_of(const fs::path& file) {
  std::error_code failure;
  const auto size = fs::file_size(file, failure);
  return failure || size > kMostText ? "" : files().read(file);
}

int64_t milliseconds(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(system).count();
}

}  // namespace

Json list_runs(const fs::path& root) {
  std::vector<Found> found;
  find_runs(root, root, kDepth, found);
  std::ranges::stable_sort(found, std::greater(), &Found::modified);
  Json runs = Json::array();
  for (size_t i = 0; i < std::min(kMostRuns, found.size()); ++i)
    runs.push_back({{"name", found[i].name}, {"modified_ms", milliseconds(found[i].modified)}});
  return {{"runs", std::move(runs)}, {"total", found.size()}};
}

/// The folder of a run, symbolic links resolved.
static fs::path folder_of(const fs::path& root, const std::string& name) {
  std::error_code failure;
  const auto top = fs::canonical(root, failure);
  const auto folder = fs::canonical(root / name, failure);
  const auto inside = folder.lexically_relative(top);
  if (failure || inside.empty() || *inside.begin() == ".." || !history::is_run(folder))
    throw HttpError{404, "not_found", "run '" + printable_utf8(name.substr(0, 200)) + "': there is none of this name"};
  return folder;
}

Json show_run(const fs::path& root, const std::string& name) {
  const auto folder = folder_of(root, name);
  return {{"name", name},
          {"history", history::to_json(history::read_run(folder))},
          {"settings", text_of(folder / "config.yaml")},
          {"comparison", text_of(folder / "comparison.txt")}};
}

Json show_rankings(const fs::path& root, const std::string& name) {
  auto json = rankings_of(folder_of(root, name));
  json["name"] = name;
  return json;
}

}  // namespace foretime::cli
