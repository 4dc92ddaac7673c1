#include "jobs/agent/old_attempts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/text.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAttempt = "attempt-";
constexpr size_t kJobsAtOnce = 500;

struct Attempt {
  fs::path folder;
  int64_t fence = 0;
  bool rest = false;                                       // of one whose removal was interrupted
  fs::file_time_type touched = fs::file_time_type::min();  // when it was written to last
};

/// Empty for what is no attempt.
std::optional<Attempt> attempt_of(const fs::path& folder) {
  const auto name = folder.filename().string();
  if (!name.starts_with(kAttempt)) return std::nullopt;
  Attempt attempt{.folder = folder, .rest = name.ends_with(kAsideSuffix)};
  const auto digits = name.substr(kAttempt.size());
  if (std::from_chars(digits.data(), digits.data() + digits.size(), attempt.fence).ec != std::errc())
    return std::nullopt;
  for (const auto& path : {folder, folder / "output.log", folder / "metrics.jsonl", folder / "checkpoints"}) {
    std::error_code failure;
    const auto time = fs::last_write_time(path, failure);
    if (failure && is_storage_failure(failure.value())) throw_file_error(path, "cannot be read", failure.value());
    if (!failure) attempt.touched = std::max(attempt.touched, time);
  }
  if (attempt.touched == fs::file_time_type::min()) return std::nullopt;  // it has gone
  return attempt;
}

/// The value of the best checkpoint that an attempt holds.
std::optional<double> best_value(const fs::path& attempt) {
  const auto path = attempt / "checkpoints" / "best.json";
  if (!files().exists(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(files().read(path), nullptr, false);
  if (!json.is_object() || !json.contains("value") || !json["value"].is_number()) return std::nullopt;
  return json["value"].get<double>();
}

/// Ids of jobs whose result a job that has not ended will read.
std::set<std::string> needed_by_others(QueueReader& reader) {
  std::set<std::string> needed;
  for (const auto state : {JobState::active, JobState::waiting, JobState::delayed, JobState::held, JobState::blocked}) {
    const auto ids = reader.ids_in(state, INT64_MAX / 2);
    for (size_t begin = 0; begin < ids.size(); begin += kJobsAtOnce) {
      const auto end = std::min(ids.size(), begin + kJobsAtOnce);
      for (const auto& job : reader.jobs(
               {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.begin() + static_cast<std::ptrdiff_t>(end)}))
        needed.insert(job.spec.after.begin(), job.spec.after.end());
    }
  }
  return needed;
}

}  // namespace

std::vector<fs::path> old_attempts(const fs::path& runs, const JobRecord& job, const AttemptRetention& retention,
                                   fs::file_time_type now) {
  if (!is_final(job.state) || !job.unreadable.empty()) return {};
  std::vector<Attempt> attempts;
  std::vector<fs::path> old;
  for (const auto& path : files().list(runs / job.spec.id)) {
    const auto attempt = attempt_of(path);
    if (!attempt || !files().is_folder(path)) continue;
    if (attempt->rest)
      old.push_back(path);
    else
      attempts.push_back(*attempt);
  }
  std::ranges::stable_sort(attempts, [](const Attempt& a, const Attempt& b) { return a.fence < b.fence; });
  std::set<fs::path> needed;
  if (!attempts.empty()) {
    for (const auto& attempt : attempts)  // several, where Redis gave one fence out twice
      if (attempt.fence == attempts.back().fence) needed.insert(attempt.folder);
  }
  const auto checkpoint = (runs / job.checkpoint).lexically_normal();
  std::optional<std::pair<double, fs::path>> best;
  for (const auto& attempt : attempts) {
    const auto [end, rest] =
        std::mismatch(attempt.folder.begin(), attempt.folder.end(), checkpoint.begin(), checkpoint.end());
    if (!job.checkpoint.empty() && end == attempt.folder.end()) needed.insert(attempt.folder);
    const auto value = best_value(attempt.folder);
    if (value && (!best || (job.spec.maximize ? *value >= best->first : *value <= best->first)))
      best = std::pair(*value, attempt.folder);
  }
  if (best) needed.insert(best->second);
  std::erase_if(attempts, [&](const Attempt& attempt) { return needed.contains(attempt.folder); });
  const auto replaced = attempts.size() - std::min(attempts.size(), static_cast<size_t>(retention.keep));
  for (size_t i = 0; i < replaced; ++i)
    if (now - attempts[i].touched >= retention.age) old.push_back(attempts[i].folder);
  return old;
}

CleanedAttempts clean_attempts(const fs::path& runs, QueueReader& reader, const AttemptRetention& retention,
                               bool remove) {
  CleanedAttempts cleaned;
  const auto root = runs.lexically_normal();
  const auto needed = needed_by_others(reader);
  for (const auto& folder : files().list(root)) {
    const auto id = folder.filename().string();
    if (id.starts_with('.') || needed.contains(id) || !files().is_folder(folder)) continue;
    const auto job = reader.job(id);
    if (!job) continue;  // nobody's, or of a job that was forgotten: its owner may want it
    for (const auto& attempt : old_attempts(root, *job, retention, fs::file_time_type::clock::now())) {
      try {
        if (remove) {
          const auto again = reader.job(id);  // somebody may have retried it
          if (!again || !is_final(again->state)) break;
          if (attempt.filename().string().ends_with(kAsideSuffix))
            files().remove(attempt);
          else
            remove_folder(attempt);
        }
        cleaned.removed.push_back(attempt);
      } catch (const FileError& error) {
        cleaned.kept.emplace_back(error.what());
      }
    }
  }
  return cleaned;
}

}  // namespace foretime::jobs
