#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "comm/communicator.h"
#include "coordinator/exit_code.h"

namespace foretime::coordinator {

/// The exit code that stands for an exception: settings 2, data, models and checkpoints 3, devices and communication 4,
/// a lost peer 5, anything else 1.
int exit_code_of(const std::exception& error);

/// A failure whose exit code is known already: another rank's, in a step that all ranks take together.
class RemoteError : public std::runtime_error {
 public:
  RemoteError(const std::string& message, int code) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// Runs `step` on every rank and lets them agree on the outcome: where it threw on some rank, it throws on all of them,
/// the rank's own exception there and RemoteError (with that rank's message and exit code) elsewhere. Nobody is left
/// waiting in a collective.
void run_together(comm::Communicator& comm, const std::function<void()>& step);

}  // namespace foretime::coordinator
