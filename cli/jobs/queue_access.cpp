#include "cli/jobs/queue_access.h"

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/duration.h"
#include "base/process_secrets.h"
#include "base/text.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"
#include "jobs/queue/redis_queue.h"

namespace foretime::cli {
namespace {
constexpr int64_t kLossBackoff = 720;  // the longest wait after lost leases, in waits before the second attempt
constexpr jobs::Milliseconds kLongestBackoff{7LL * 24 * 3600 * 1000};

constexpr size_t kLongestPrefix = 100;

/// Keys start with {prefix}: a brace in it would end the cluster's hash tag early.
void check_prefix(const std::string& prefix) {
  const bool plain = has_only_letters_digits_and("_-.:", prefix);
  if (prefix.empty() || prefix.size() > kLongestPrefix || !plain)
    throw jobs::JobsError("--prefix (or FORETIME_PREFIX) '{}': expected 1 to {} letters, digits, _ - . :",
                          prefix.substr(0, 40), kLongestPrefix);
}

}  // namespace

void add_queue_options(CLI::App& command, QueueOptions& options) {
  const auto group = command.option_defaults()->get_group();
  command.option_defaults()->group("Queue");
  typed_option(command, "--redis", options.redis,
               "redis://host[:port][/database] or unix:///path; default: FORETIME_REDIS, else a Redis that foretime "
               "runs itself inside --runs. User and password come from FORETIME_REDIS, or FORETIME_REDIS_USER and "
               "FORETIME_REDIS_PASSWORD or FORETIME_REDIS_PASSWORD_FILE, which is read again at each connection",
               "URL");
  typed_option(command, "--runs", options.runs, "folder of all runs of jobs; the embedded Redis lives in it", "DIR")
      ->envname("FORETIME_RUNS")
      ->capture_default_str();
  typed_option(command, "--prefix", options.prefix, "start of all keys in Redis, to keep several queues apart", "NAME")
      ->envname("FORETIME_PREFIX")
      ->capture_default_str();
  command.option_defaults()->group(group);
}

std::string options_naming(const QueueOptions& options) {
  const QueueOptions defaults;
  std::string text;
  if (options.redis != defaults.redis) text += " --redis " + shell_word(options.redis);
  if (options.runs != defaults.runs) text += " --runs " + shell_word(options.runs);
  if (options.prefix != defaults.prefix) text += " --prefix " + shell_word(options.prefix);
  return text;
}

QueueAccess::QueueAccess(const QueueOptions& options, Start start) {
  check_prefix(options.prefix);
  settings_.prefix = options.prefix;
  runs_ = options.runs;
  settings_.backoff_base = milliseconds_of(options.retry_seconds);
  settings_.loss_backoff_cap =
      std::clamp(settings_.backoff_base * kLossBackoff, jobs::Milliseconds(1), kLongestBackoff);
  settings_.keep_jobs = options.keep_jobs;
  settings_.keep_finished = milliseconds_of(options.keep_days * 24 * 3600);
  protect_secrets();
  bool found = false;
  url_ = jobs::RedisUrl::from_environment(options.redis, found);
  if (found && options.accept_loss)
    throw jobs::JobsError(
        "--accept-loss: found a Redis at {}, expected none: "
        "the option is for the Redis that foretime runs itself in --runs",
        url_.redacted());
  if (!found) {
    std::error_code failure;
    const bool was_there = std::filesystem::exists(std::filesystem::path(options.runs) / ".redis", failure);
    if (failure)
      throw jobs::RedisUnavailable(
          "the run folder '{}' cannot be searched for a Redis: {}; "
          "allow it (chmod u+x), or name another folder with --runs, or a Redis with --redis or FORETIME_REDIS",
          options.runs, failure.message());
    if (start != Start::if_needed && !was_there)
      throw jobs::RedisUnavailable(
          "found no Redis URL, and no job was ever submitted to the run folder '{}': give --redis URL "
          "(or FORETIME_REDIS), or the --runs DIR that jobs were submitted to; `foretime submit` starts a Redis there",
          options.runs);
    try {
      embedded_ = std::make_unique<jobs::EmbeddedRedis>(options.runs, jobs::EmbeddedRedis::kLinger,
                                                        jobs::EmbeddedRedis::kPatience, options.accept_loss);
      url_ = embedded_->url();
    } catch (const jobs::RedisStorageError& error) {
      if (start != Start::to_read) throw;
      why_copied_ = error.what();
      try {
        copy_ = std::make_unique<jobs::RedisCopy>(options.runs);
      } catch (const jobs::RedisUnavailable& second) {
        throw jobs::RedisStorageError("{}; it cannot be read either: {}", why_copied_, second.what());
      }
      url_ = copy_->url();
    }
  }
  client_ = make_client();
  client_->call({"PING"});
  reader_ = std::make_unique<jobs::QueueReader>(*client_, settings_);
}

QueueAccess::QueueAccess(std::unique_ptr<jobs::RedisClient> client, const jobs::QueueSettings& settings)
    : settings_(settings),
      client_(std::move(client)),
      reader_(std::make_unique<jobs::QueueReader>(*client_, settings_)) {}

std::unique_ptr<jobs::RedisClient> QueueAccess::make_client() {
  auto client = std::make_unique<jobs::RedisClient>(url_);
  // Whoever lives long outlives the guardian of the embedded server, should that be killed.
  if (embedded_) {
    client->before_connecting([embedded = embedded_.get()] { embedded->ensure(); });
    client->after_loss([embedded = embedded_.get()] { embedded->check_room(); });
  }
  return client;
}

std::vector<std::string> QueueAccess::warnings() {
  constexpr uintmax_t kLittle = uintmax_t{512} << 20;
  auto found = reader_->take_damage();
  for (auto& what : found) what = "damaged: " + what;
  if (copy_) {
    found.push_back(fmt::format("this is what the queue wrote last, and nothing can be changed: {}", why_copied_));
    return found;
  }
  if (auto evicted = jobs::eviction_warning(*client_); !evicted.empty()) found.push_back(std::move(evicted));
  if (auto memory = jobs::memory_warning(*client_); !memory.empty()) found.push_back(std::move(memory));
  if (!embedded_) return found;
  std::error_code failure;
  const auto space = std::filesystem::space(runs_, failure);
  if (!failure && space.available < kLittle)
    found.push_back(fmt::format("{} MiB are free on the disk of {}: when it is full, no jobs are taken",
                                space.available >> 20, runs_.string()));
  return found;
}

jobs::JobQueue& QueueAccess::queue() {
  if (!queue_) queue_ = std::make_unique<jobs::RedisQueue>(*client_, settings_);
  return *queue_;
}

jobs::Retention QueueAccess::agree_to_keep(const jobs::Retention& keep, bool change) {
  return jobs::RedisQueue(*client_, settings_).agree_to_keep(keep, change);
}

std::string QueueAccess::identity(const std::string& proposal) {
  return jobs::RedisQueue(*client_, settings_).identity(proposal);
}

std::shared_ptr<jobs::JobQueue> QueueAccess::make_queue() {
  std::shared_ptr<jobs::RedisClient> client = make_client();
  // The connection lives as long as its queue.
  auto* queue = new jobs::RedisQueue(*client, settings_);
  return {queue, [client](jobs::JobQueue* made) { delete made; }};
}

std::shared_ptr<jobs::ArtifactStores> QueueAccess::make_stores() {
  return std::make_shared<jobs::ArtifactStores>([this] { return make_client(); }, settings_.prefix);
}

}  // namespace foretime::cli
