#pragma once

#include <chrono>
#include <cstdint>

namespace foretime::server {

/// Sets the limits of the server, which refuses requests beyond them.
struct ServeLimits {
  int64_t max_body = int64_t{32} << 20;      // largest body of a request, in bytes
  int64_t bodies = 4;                        // memory for the bodies of all requests, as a multiple of max_body
  int64_t max_concurrent = 1;                // scoring calls at the same time; likewise openings of graphs or workloads
  int64_t max_queue = 64;                    // number of requests that may wait for scoring or opening
  int64_t max_graphs = 64;                   // number of graphs in memory, and separately number of workloads
  int64_t max_nodes = 500'000;               // nodes of one graph; all graphs in memory have at most four times as many
  int64_t max_candidates = 100'000;          // candidates of one request
  std::chrono::microseconds batch_window{};  // time that a request waits for others to the same graph or workload
  int64_t idle_seconds = 30;                 // seconds after which a connection that moves no byte is closed
  std::chrono::milliseconds drain{30'000};   // time for running requests after SIGTERM or SIGINT
};

}  // namespace foretime::server
