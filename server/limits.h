#pragma once

#include <chrono>
#include <cstdint>

namespace foretime::server {

/// What the server takes on at most. Whatever is asked of it beyond is refused.
struct ServeLimits {
  int64_t max_body = int64_t{32} << 20;       // bytes of a request
  int64_t bodies = 4;                         // so many times max_body are held at once
  int64_t max_concurrent = 1;                 // calls that score at once
  int64_t max_queue = 64;                     // requests that wait for them
  int64_t max_graphs = 64;                    // graphs and workloads kept, each
  int64_t max_nodes = 500'000;                // of a graph; all that are kept have four times as many
  int64_t max_candidates = 100'000;           // of a request
  std::chrono::microseconds batch_window{};   // that a request waits for others of its graph
  std::chrono::milliseconds request{30'000};  // for a request's head, its body, and for taking its answer, each
  std::chrono::milliseconds drain{30'000};    // requests may go on after SIGTERM
};

}  // namespace foretime::server
