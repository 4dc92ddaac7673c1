#pragma once

#include <cstdint>
#include <string>

#include "server/http/limits.h"

namespace foretime::server {

/// Holds the arguments of `foretime serve`.
struct ServeArguments {
  std::string model, socket, address = "127.0.0.1";  // socket "": no Unix socket
  int64_t port = -1;                                 // 0: any free port; -1: no TCP
  int64_t threads = 1;                               // threads of one scoring call; 0: one for each core
  int64_t max_body_mib = 32;                         // argument of --max-body; limits.max_body is set from it
  int64_t batch_window_us = 1000;  // argument of --batch-window-us; limits.batch_window is set from it
  double drain_seconds = 30;       // argument of --drain-seconds; limits.drain is set from it
  ServeLimits limits;
};

/// Runs `foretime serve`: opens the bundle, listens, and answers until SIGTERM or SIGINT. SIGHUP opens the bundle
/// again; if that fails, the current model stays. If requests are not answered within limits.drain after the signal,
/// ends the process with kInternal. Throws ListenError, SettingsError if no socket is given, and the errors of bundles.
void serve(const ServeArguments& arguments);

}  // namespace foretime::server
