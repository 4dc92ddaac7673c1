#include "jobs/agent/old_attempts.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/foreign_file.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCleaned = ".cleaned";
constexpr size_t kJobsAtOnce = 500;
constexpr std::chrono::hours kCleanEvery{1};
constexpr uint64_t kMostNoteBytes = 1 << 20;

struct Attempt {
  fs::path folder;
  AttemptName name;
  fs::file_time_type touched = fs::file_time_type::min();  // when it was written to last
};

/// The time at which an attempt was last written to; the oldest time where the folder has gone.
fs::file_time_type time_of(const fs::path& folder) {
  auto touched = fs::file_time_type::min();
  for (const auto* inside : {"", "output.log", "metrics.jsonl", "checkpoints"}) {
    const auto time = foreign_write_time(folder.parent_path(), folder.filename() / fs::path(inside));
    if (time) touched = std::max(touched, *time);
  }
  return touched;
}

/// A small file of an attempt; null if it does not exist, discarded if it is no JSON.
nlohmann::json json_of(const fs::path& attempt, const char* name) {
  const auto text = read_foreign(attempt, name, kMostNoteBytes);
  return text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
}

/// The value of the best checkpoint that an attempt holds.
std::optional<double> best_value(const fs::path& attempt) {
  const auto json = json_of(attempt, "checkpoints/best.json");
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
      for (const auto& job : reader.jobs({ids.begin() + begin, ids.begin() + end}))
        needed.insert(job.spec.after.begin(), job.spec.after.end());
    }
  }
  return needed;
}

/// The attempts of a job in the order of their numbers, with those whose removal was interrupted.
std::vector<Attempt> attempts_of(const fs::path& runs, const AttemptOwner& owner) {
  std::vector<Attempt> attempts;
  for (const auto& path : files().list(runs / owner.job))
    if (is_attempt_of(path, owner))
      attempts.push_back({path, parse_attempt_name(path.filename().string()).value(), time_of(path)});
  std::ranges::stable_sort(attempts, {}, [](const Attempt& attempt) { return attempt.name.fence; });
  return attempts;
}

}  // namespace

std::vector<fs::path> forgotten_attempts(const fs::path& runs, const AttemptOwner& owner, std::chrono::seconds age,
                                         fs::file_time_type now) {
  std::vector<fs::path> forgotten;
  for (const auto& attempt : attempts_of(runs, owner)) {
    if (!attempt.name.half_removed && now - attempt.touched < age) return {};
    forgotten.push_back(attempt.folder);
  }
  return forgotten;
}

bool begin_cleaning(const fs::path& runs, fs::file_time_type now) {
  const auto path = runs / kCleaned;
  std::error_code none;
  const auto before = fs::last_write_time(path, none);
  if (!none && std::chrono::abs(now - before) < kCleanEvery) return false;
  write_whole(path, "Old attempts were removed at the time of this file.\n");
  return true;
}

std::vector<fs::path> old_attempts(const fs::path& runs, const JobRecord& job, const std::string& queue,
                                   const AttemptRetention& retention, fs::file_time_type now) {
  if (!is_final(job.state) || !job.unreadable.empty()) return {};
  std::vector<Attempt> attempts;
  std::vector<fs::path> old;
  for (auto& attempt : attempts_of(runs, {job.spec.id, queue})) {
    if (attempt.name.half_removed) old.push_back(attempt.folder);
    else attempts.push_back(std::move(attempt));
  }
  std::set<fs::path> needed;
  if (!attempts.empty())
    for (const auto& attempt : attempts)  // several, where Redis gave one fence out twice
      if (attempt.name.fence == attempts.back().name.fence) needed.insert(attempt.folder);
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
  const auto replaced = attempts.size() - std::min<size_t>(attempts.size(), retention.keep);
  for (size_t i = 0; i < replaced; ++i)
    if (now - attempts[i].touched >= retention.age) old.push_back(attempts[i].folder);
  return old;
}

CleanedAttempts clean_attempts(const fs::path& runs, QueueReader& reader, const AttemptRetention& retention,
                               bool remove, const std::function<bool()>& stop) {
  CleanedAttempts cleaned;
  const auto root = runs.lexically_normal();
  const auto needed = needed_by_others(reader);
  const auto queue = reader.identity();
  if (queue.empty()) return cleaned;  // no agent has made anything for it
  for (const auto& folder : files().list(root)) {
    if (stop()) break;
    const auto id = folder.filename().string();
    if (id.starts_with('.') || needed.contains(id) || !files().is_folder(folder)) continue;
    const auto job = reader.job(id);
    const auto now = fs::file_time_type::clock::now();
    if (!job && !retention.forgotten) continue;  // keep attempts that the owner may want
    std::vector<fs::path> attempts;
    try {
      attempts = job ? old_attempts(root, *job, queue, retention, now)
                     : forgotten_attempts(root, {id, queue}, *retention.forgotten, now);
    } catch (const StorageError&) {
      throw;
    } catch (const FileError& error) {  // lost+found, or of somebody else
      cleaned.kept.emplace_back(error.what());
    }
    for (const auto& attempt : attempts) {
      if (stop()) break;
      try {
        if (remove) {
          const auto again = reader.job(id);  // somebody may have retried or resubmitted it
          if (job ? !again || !is_final(again->state) : again.has_value()) break;
          remove_attempt(attempt);
        }
        cleaned.removed.push_back(attempt);
      } catch (const FileError& error) {
        cleaned.kept.emplace_back(error.what());
      }
    }
    if (!job && remove && !attempts.empty())
      ::rmdir(folder.c_str());  // fails if the folder has other files, which is fine
  }
  return cleaned;
}

}  // namespace foretime::jobs
