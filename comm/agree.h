#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"

namespace foretime::comm {

/// Another rank's failure, in a step that all ranks take together.
struct RemoteError : Error {
  using Error::Error;
};

/// Runs `step` on every rank and lets them agree on the outcome: where it threw on some rank, it throws on all of them,
/// the rank's own exception there and RemoteError (with that rank's message and exit code) elsewhere. Nobody is left
/// waiting in a collective.
void run_together(Communicator& comm, const std::function<void()>& step);

}  // namespace foretime::comm
