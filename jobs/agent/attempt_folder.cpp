#include "jobs/agent/attempt_folder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/foreign_file.h"
#include "base/numbers.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kAttempt = "attempt-", kRemoved = ".old-";
constexpr const char* kMark = "attempt.json";
constexpr uint64_t kMarkBytes = 4096;

/// Reads the digits at the start of `text` and removes them from it. Empty where there are none, or too many.
std::optional<int64_t> take_digits(std::string_view& text) {
  return text.starts_with('-') ? std::nullopt : take_number<int64_t>(text);
}

Json mark_of(const fs::path& attempt, const AttemptOwner& owner) {
  const auto name = parse_attempt_name(attempt.filename().string());
  return {{"job", owner.job}, {"queue", owner.queue}, {"attempt", name ? name->name : ""}};
}

}  // namespace

std::optional<AttemptName> parse_attempt_name(std::string_view name) {
  AttemptName parsed;
  if (const auto at = name.rfind(kRemoved); at != std::string_view::npos && name.ends_with(kAsideSuffix)) {
    auto pid = name.substr(at + kRemoved.size());
    if (!take_digits(pid) || pid != kAsideSuffix) return std::nullopt;
    parsed.half_removed = true;
    name = name.substr(0, at);
  }
  parsed.name = name;
  if (!name.starts_with(kAttempt)) return std::nullopt;
  name.remove_prefix(kAttempt.size());
  const auto fence = take_digits(name);
  if (!fence) return std::nullopt;
  parsed.fence = *fence;
  if (!name.empty() && (name.front() != '-' || !is_id(std::string(name.substr(1))))) return std::nullopt;
  return parsed;
}

void mark_attempt(const fs::path& attempt, const AttemptOwner& owner) {
  write_synced(attempt / kMark, mark_of(attempt, owner).dump() + "\n");
  files().sync_folder(attempt);
}

bool is_attempt_of(const fs::path& folder, const AttemptOwner& owner) {
  if (!parse_attempt_name(folder.filename().string())) return false;
  try {
    std::error_code missing;
    if (fs::is_symlink(folder, missing) || !files().is_folder(folder)) return false;
    const auto mark = read_foreign(folder, kMark, kMarkBytes);
    return mark && Json::parse(*mark, nullptr, false) == mark_of(folder, owner);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError&) {
    return false;
  }
}

void remove_attempt(const fs::path& attempt) {
  auto aside = attempt;
  if (!attempt.filename().string().ends_with(kAsideSuffix)) {
    aside += fmt::format("{}{}{}", kRemoved, ::getpid(), kAsideSuffix);
    files().rename(attempt, aside);
    files().sync_folder(attempt.parent_path());
  }
  for (const auto& path : files().list(aside))
    if (path.filename() != kMark) files().remove(path);
  files().remove(aside);
}

}  // namespace foretime::jobs
