#pragma once

#include <string>
#include <vector>

#include "cli/queue_access.h"

namespace foretime::cli {

/// What `foretime doctor` says about the queue's Redis.
struct RedisFinding {
  std::string found;
  std::vector<std::string> advice;
};

/// Looks at the Redis that the options name, or at the embedded one where it runs. Starts nothing; whatever fails is
/// a finding.
RedisFinding look_at_redis(const QueueOptions& options);

}  // namespace foretime::cli
