#include "worker/step/preemption.h"

#include <csignal>

namespace foretime::worker {
namespace {

// A signal handler can reach nothing but this.
volatile std::sig_atomic_t preemption_requested = 0;

void request(int signal) {
  preemption_requested = 1;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

PreemptionGuard::PreemptionGuard() {
  preemption_requested = 0;
  std::signal(SIGTERM, request);
  std::signal(SIGINT, request);
}

PreemptionGuard::~PreemptionGuard() {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
}

bool PreemptionGuard::stop_requested() { return preemption_requested != 0; }

}  // namespace foretime::worker
