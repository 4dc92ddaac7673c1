#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"
#include "tests/simulation/cluster/network.h"

namespace foretime::simulation {

inline jobs::QueueSettings queue_settings() {
  return {.backoff_base = jobs::Milliseconds(10'000), .keep_finished = jobs::Milliseconds(6 * 3600 * 1000)};
}

/// Client and queue in one, with a connection of their own.
struct SimulatedClient {
  /// `notify`: see SimulatedRedis::connect. A client on node -1 is on none of the cluster's.
  explicit SimulatedClient(SimulatedRedis& redis, int64_t node = -1, std::function<void()> notify = nullptr)
      : client(url()), queue(client, queue_settings()) {
    client.connect_by(
        [&redis, node, notify = std::move(notify)](const jobs::RedisUrl&) { return redis.connect(node, notify); });
  }
  static jobs::RedisUrl url() {
    jobs::RedisUrl url;
    url.host = "simulated";
    return url;
  }
  jobs::RedisClient client;
  jobs::RedisQueue queue;
};

}  // namespace foretime::simulation
