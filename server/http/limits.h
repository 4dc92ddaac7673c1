#pragma once

#include <chrono>
#include <cstdint>

namespace foretime::server {

/// Sets the limits of the server, which refuses everything beyond them.
struct ServeLimits {
  int64_t max_body = int64_t{32} << 20;      // bytes in a request
  int64_t bodies = 4;                        // memory for bodies, in multiples of max_body
  int64_t max_concurrent = 1;                // scoring calls at the same time
  int64_t max_queue = 64;                    // requests that wait for scoring
  int64_t max_graphs = 64;                   // number of graphs in memory, and of workloads
  int64_t max_nodes = 500'000;               // nodes in a graph; four times as many in all graphs
  int64_t max_candidates = 100'000;          // candidates in a request
  std::chrono::microseconds batch_window{};  // time that a request waits for others to the same graph
  int64_t idle_seconds = 30;                 // a connection that moves no byte for so long is closed
  std::chrono::milliseconds drain{30'000};   // time for running requests after SIGTERM
};

}  // namespace foretime::server
