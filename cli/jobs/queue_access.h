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

/// The options that all commands of the job queue share.
struct QueueOptions {
  std::string redis;  // URL; empty: FORETIME_REDIS, else the embedded Redis of `runs`
  std::string runs = "runs";
  std::string prefix = "foretime";
  double retry_seconds = 5;     // agents: back-off before the second attempt
  double keep_days = 30;        // agents: then jobs that ended are forgotten; 0: never
  int64_t keep_jobs = 200'000;  // agents: of more jobs that ended the oldest are forgotten; 0: all are kept
  bool accept_loss = false;     // the embedded Redis continues with what is left of its data
};
void add_queue_options(CLI::App& command, QueueOptions& options);

/// What a command needs of the embedded Redis: one that is started where there never was any, one that was there
/// before, or something to read, which may be a copy where the original cannot run (jobs/redis/redis_copy.h).
enum class Start { if_needed, never, to_read };

/// A connection to the queue, by the options or by the embedded Redis of the run root, which lives as long as this.
class QueueAccess {
 public:
  /// Connects. Start::never and to_read refuse a run root that never had a Redis, instead of making an empty queue
  /// there. Throws jobs::RedisUnavailable, whose message says what to do, jobs::RedisRefused (jobs::RedisDataLost where
  /// the embedded Redis has less data than were written), and jobs::JobsError for options that are wrong.
  QueueAccess(const QueueOptions& options, Start start);
  /// Uses a client that is there. No other connections can be made.
  QueueAccess(std::unique_ptr<jobs::RedisClient> client, const jobs::QueueSettings& settings);

  jobs::RedisClient& client() { return *client_; }
  jobs::JobQueue& queue();
  jobs::QueueReader& reader() { return *reader_; }
  /// See jobs::RedisQueue::agree_to_keep.
  jobs::Retention agree_to_keep(const jobs::Retention& keep, bool change);
  /// See jobs::RedisQueue::identity.
  std::string identity(const std::string& proposal);
  const jobs::QueueSettings& settings() const { return settings_; }
  /// A queue with a connection of its own, for another thread; this object must outlive it. Any thread may call it.
  std::shared_ptr<jobs::JobQueue> make_queue();
  /// For one thread; this object must outlive it. Any thread may call it.
  std::shared_ptr<jobs::ArtifactStores> make_stores();
  const jobs::RedisUrl& url() const { return url_; }
  /// Returns what will soon keep the queue from taking jobs (Redis' memory, or the disk of the embedded one), and which
  /// damage the reader has left out of lists since the last call.
  std::vector<std::string> warnings();
  /// Where Redis is, for people; never a password.
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
