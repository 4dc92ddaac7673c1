#pragma once

#include <functional>
#include <memory>
#include <string>

#include <spdlog/logger.h>

#include "comm/communicator.h"
#include "configs/settings.h"

namespace foretime::worker {

/// Builds the communicator that the settings ask for, sets this rank's threads, runs `body` and, where it throws, tells
/// the peers before the exception goes on.
void with_communicator(const configs::CommSettings& settings, int64_t threads,
                       const std::function<void(comm::Communicator&)>& body);

/// For rank 0 all messages, for others warnings alone. `file` may be empty.
std::shared_ptr<spdlog::logger> rank_logger(const comm::Communicator& comm, const std::string& file);

}  // namespace foretime::worker
