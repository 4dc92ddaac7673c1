#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "jobs/artifacts/artifact_store.h"
#include "jobs/queue/queue.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/redis/embedded_redis.h"
#include "jobs/redis/redis_client.h"
#include "jobs/redis/redis_copy.h"

namespace CLI {
class App;
}

namespace foretime::cli {

/// Holds the options that all commands of the job queue share.
struct QueueOptions {
  std::string redis;  // URL; empty: FORETIME_REDIS, or else the embedded Redis of `runs`
  std::string runs = "runs";
  std::string prefix = "foretime";
  double retry_seconds = 5;     // agents: delay before the second attempt
  double keep_days = 30;        // agents: ended jobs are forgotten after this time; 0: never
  int64_t keep_jobs = 200'000;  // agents: number of ended jobs to keep, the newest ones; 0: all
  bool accept_loss = false;     // the embedded Redis continues with incomplete data
};
void add_queue_options(CLI::App& command, QueueOptions& options);

/// Returns the options that name this queue in another command, each after a blank, for a shell.
std::string options_naming(const QueueOptions& options);

/// Says which embedded Redis a command needs: one that is started even if there was none (if_needed), an existing one
/// (never), or one to read, which may be a copy if the original cannot run (jobs/redis/redis_copy.h).
enum class Start { if_needed, never, to_read };

/// Connects to the queue given by the options, or to the embedded Redis of the run root, which lives as long as this
/// object.
class QueueAccess {
 public:
  /// Connects. Start::never and to_read refuse a run root without a Redis instead of making an empty queue. Throws
  /// jobs::RedisUnavailable, whose message says what to do, jobs::RedisRefused (jobs::RedisDataLost if the embedded
  /// Redis has less data than were written), and jobs::JobsError for wrong options.
  QueueAccess(const QueueOptions& options, Start start);
  /// Uses an existing client. No other connections can be made.
  QueueAccess(std::unique_ptr<jobs::RedisClient> client, const jobs::QueueSettings& settings);

  jobs::RedisClient& client() { return *client_; }
  /// Returns the queue of this connection, made at the first call.
  jobs::JobQueue& queue();
  jobs::QueueReader& reader() { return *reader_; }
  /// See jobs::RedisQueue::agree_to_keep.
  jobs::Retention agree_to_keep(const jobs::Retention& keep, bool change);
  /// See jobs::RedisQueue::identity.
  std::string identity(const std::string& proposal);
  const jobs::QueueSettings& settings() const { return settings_; }
  /// Returns a queue with a separate connection, for another thread; this object must outlive it. Thread-safe.
  std::shared_ptr<jobs::JobQueue> make_queue();
  /// Returns stores for one thread; this object must outlive them. Thread-safe.
  std::shared_ptr<jobs::ArtifactStores> make_stores();
  const jobs::RedisUrl& url() const { return url_; }
  /// Returns warnings about limits that will soon keep the queue from taking jobs (Redis' memory, or the disk of the
  /// embedded one), and about damaged records that the reader has skipped since the last call.
  std::vector<std::string> warnings();
  /// Returns the address of Redis for people, without the password.
  std::string name() const { return url_.redacted(); }

 private:
  jobs::QueueSettings settings_;
  std::filesystem::path runs_;
  std::unique_ptr<jobs::RedisClient> make_client();

  std::unique_ptr<jobs::EmbeddedRedis> embedded_;
  std::unique_ptr<jobs::RedisCopy> copy_;
  std::string why_copied_;
  jobs::RedisUrl url_;
  std::unique_ptr<jobs::RedisClient> client_;
  std::unique_ptr<jobs::JobQueue> queue_;
  std::unique_ptr<jobs::QueueReader> reader_;
};

}  // namespace foretime::cli
