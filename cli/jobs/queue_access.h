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

/// Holds the options of all commands of the job queue, and some that only agents and `foretime queue` set.
struct QueueOptions {
  std::string redis;                // URL; empty: FORETIME_REDIS, or if that is not set the embedded Redis in `runs`
  std::string runs = "runs";        // folder of the runs of jobs
  std::string prefix = "foretime";  // beginning of all keys in Redis
  double retry_seconds = 5;         // agents: delay before the second attempt of a failed job
  double keep_days = 30;            // agents: days after which ended jobs are forgotten; 0: never
  int64_t keep_jobs = 200'000;      // agents: number of ended jobs to keep, the newest ones; 0: all
  bool accept_loss = false;         // true: the embedded Redis continues with incomplete data
};
/// Adds --redis, --runs and --prefix to a command.
void add_queue_options(CLI::App& command, QueueOptions& options);

/// Returns the options that name this queue to another command, quoted for a shell, each after a blank; "": defaults.
std::string options_naming(const QueueOptions& options);

/// Names the embedded Redis that a command needs: if_needed starts one even in an empty run root; never takes only one
/// that exists; to_read also takes a copy if the original cannot run (jobs/redis/redis_copy.h).
enum class Start { if_needed, never, to_read };

/// Connects to the queue of the options, or to the embedded Redis of the run root, which runs as long as this object.
class QueueAccess {
 public:
  /// Connects. Start::never and to_read refuse a run root without a Redis instead of making an empty queue. Throws
  /// jobs::RedisUnavailable, whose message says what to do; jobs::RedisStorageError; jobs::RedisRefused (RedisDataLost
  /// if the embedded Redis has less data than were written); and jobs::JobsError for wrong options.
  QueueAccess(const QueueOptions& options, Start start);
  /// Uses an existing client. make_queue and make_stores must not be called.
  QueueAccess(std::unique_ptr<jobs::RedisClient> client, const jobs::QueueSettings& settings);

  jobs::RedisClient& client() { return *client_; }
  /// Returns the queue of this connection.
  jobs::JobQueue& queue();
  jobs::QueueReader& reader() { return *reader_; }
  /// Calls jobs::RedisQueue::agree_to_keep.
  jobs::Retention agree_to_keep(const jobs::Retention& keep, bool change);
  /// Calls jobs::RedisQueue::identity.
  std::string identity(const std::string& proposal);
  const jobs::QueueSettings& settings() const { return settings_; }
  /// Returns a queue with a separate connection, for another thread. This object must outlive the queue. Thread-safe.
  std::shared_ptr<jobs::JobQueue> make_queue();
  /// Returns artifact stores for one thread. This object must outlive the stores. Thread-safe.
  std::shared_ptr<jobs::ArtifactStores> make_stores();
  const jobs::RedisUrl& url() const { return url_; }
  /// Returns warnings about what makes the queue lose jobs or soon take none (eviction, Redis' memory, the disk of the
  /// embedded one) or that a copy is read, and about damaged records that the reader has skipped since the last call.
  std::vector<std::string> warnings();
  /// Returns the address of Redis for people, without the password.
  std::string name() const { return url_.redacted(); }

 private:
  jobs::QueueSettings settings_;
  std::filesystem::path runs_;
  std::unique_ptr<jobs::RedisClient> make_client();  // restarts the embedded Redis when that has ended

  std::unique_ptr<jobs::EmbeddedRedis> embedded_;
  std::unique_ptr<jobs::RedisCopy> copy_;
  std::string why_copied_;  // reason why the original cannot run
  jobs::RedisUrl url_;
  std::unique_ptr<jobs::RedisClient> client_;
  std::unique_ptr<jobs::JobQueue> queue_;
  std::unique_ptr<jobs::QueueReader> reader_;
};

}  // namespace foretime::cli
