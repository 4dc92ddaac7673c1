#include "jobs/queue/queue_reader.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "jobs/error.h"
#include "jobs/queue/limits.h"

namespace foretime::jobs {
namespace {

constexpr int64_t kIdsInAnswer = 100'000;  // of at most 64 bytes: far below Limits::kReply
constexpr int64_t kMostIds = 1'000'000;    // of one sorted set
constexpr size_t kListed = 5;              // of several that a prefix could mean

std::string shown(const std::string& text) { return fmt::format("'{}'", printable_utf8(text.substr(0, 64))); }

bool begins_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

void check_id(const std::string& key, const std::string& id) {
  if (!is_id(id))
    throw JobsError(fmt::format("{}: member {} is no id: expected 1 to 64 letters, digits, - and _", key, shown(id)));
}

/// The one of `found` that `prefix` means. `what`: job or sweep.
std::string only(const std::string& what, const std::string& prefix, const std::vector<std::string>& found) {
  if (!found.empty() && (found.size() == 1 || found.front() == prefix)) return found.front();
  if (found.empty())
    throw JobRefused(
        fmt::format("no {} has an id that begins with {}; `foretime status` lists jobs, `foretime "
                    "leaderboard` and `foretime submit` name sweeps",
                    what, shown(prefix)));
  const auto last = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), kListed));
  throw JobRefused(fmt::format("{} {} is ambiguous: it could be {}{}; give more digits", what, shown(prefix),
                               fmt::join(found.begin(), last, ", "), found.size() > kListed ? ", …" : ""));
}

}  // namespace

QueueReader::QueueReader(RedisClient& client, QueueSettings settings)
    : client_(client), settings_(std::move(settings)), prefix_("{" + settings_.prefix + "}:") {}

std::vector<Reply> QueueReader::ask(const std::vector<Arguments>& calls) {
  try {
    return client_.pipeline(calls);
  } catch (const RedisRefused& error) {
    if (std::string(error.what()).find("WRONGTYPE") == std::string::npos) throw;
  }
  // The answer does not say which key it was.
  std::vector<Reply> replies;
  for (const auto& call : calls) {
    try {
      replies.push_back(client_.call(call));
    } catch (const RedisRefused& error) {
      if (std::string(error.what()).find("WRONGTYPE") == std::string::npos) throw;
      throw JobsError(
          fmt::format("{}: it is not of the type that docs/reference/jobs.md says; was it written by another program?",
                      printable_utf8(call.at(1))));
    }
  }
  return replies;
}

std::vector<std::string> QueueReader::ids(const std::string& command, const std::string& key, int64_t limit) {
  std::vector<std::string> all;
  for (int64_t from = 0; from < limit;) {
    const auto count = std::min(kIdsInAnswer, limit - from);
    const auto replies = ask({{command, key, std::to_string(from), std::to_string(from + count - 1)}});
    auto page = texts_of(*replies[0]);
    for (auto& id : page) {
      check_id(key, id);
      all.push_back(std::move(id));
    }
    if (static_cast<int64_t>(page.size()) < count) break;
    from += count;
  }
  return all;
}

std::vector<std::string> QueueReader::jobs_like(const std::string& prefix) {
  if (!is_id(prefix)) return {};
  const auto replies = ask(
      {{"ZRANGEBYLEX", key("ids"), "[" + prefix, "[" + prefix + "\xff", "LIMIT", "0", std::to_string(kListed + 1)}});
  auto found = texts_of(*replies[0]);
  for (const auto& id : found) check_id(key("ids"), id);
  return found;
}

std::vector<std::string> QueueReader::sweeps_like(const std::string& prefix) {
  if (!is_id(prefix)) return {};
  const auto replies = ask({{"ZSCORE", key("sweeps"), prefix}});
  if (replies[0]->type != REDIS_REPLY_NIL) return {prefix};
  auto found = ids("ZREVRANGE", key("sweeps"), kMostIds);
  std::erase_if(found, [&](const auto& id) { return !begins_with(id, prefix); });
  return found;
}

std::string QueueReader::resolve_job(const std::string& prefix) { return only("job", prefix, jobs_like(prefix)); }

std::string QueueReader::resolve_sweep(const std::string& prefix) { return only("sweep", prefix, sweeps_like(prefix)); }

bool QueueReader::is_sweep(const std::string& prefix) {
  const auto sweeps = sweeps_like(prefix);
  if (sweeps.empty()) return false;
  const auto jobs = jobs_like(prefix);
  const bool full_sweep = sweeps.front() == prefix, full_job = !jobs.empty() && jobs.front() == prefix;
  if (jobs.empty() || (full_sweep && !full_job)) return true;
  if (full_job && !full_sweep) return false;
  throw JobRefused(fmt::format("{} is ambiguous: it could be sweep {} or job {}; give more digits", shown(prefix),
                               sweeps.front(), jobs.front()));
}

std::vector<std::string> QueueReader::ids_in(JobState state, int64_t limit) {
  return ids("ZREVRANGE", key("state:" + to_string(state)), limit);
}

std::vector<std::string> QueueReader::ids_of_sweep(const std::string& sweep) {
  return ids("ZRANGE", key("sweep:" + sweep + ":jobs"), kMostIds);
}

std::vector<std::string> QueueReader::sweeps(int64_t limit) { return ids("ZREVRANGE", key("sweeps"), limit); }

}  // namespace foretime::jobs
