#include "base/stop_signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <mutex>

namespace foretime {
namespace {

constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGHUP};
constexpr int64_t kSecond = 1'000'000'000;  // nanoseconds

// A signal handler can reach nothing but these, from any thread.
std::atomic<StopSignals::Handler> stop_handler = nullptr;
std::atomic<int> first_signal = 0, requests = 0;
std::atomic<int64_t> last_request = 0;  // nanoseconds of a clock that is never set; 0: none
static_assert(std::atomic<int64_t>::is_always_lock_free);

std::mutex objects_mutex;
int objects = 0;
std::array<struct sigaction, kStopSignals.size()> earlier_actions;

void on_stop_signal(int signal) {
  timespec clock{};
  clock_gettime(CLOCK_MONOTONIC, &clock);
  const int64_t now = clock.tv_sec * kSecond + clock.tv_nsec;
  int64_t last = last_request;
  if ((last == 0 || now - last >= kSecond) && last_request.compare_exchange_strong(last, now)) ++requests;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  stop_handler.load()(signal, requests);
}

}  // namespace

void ignore_write_signals() {
  for (const int signal : {SIGXFSZ, SIGPIPE}) std::signal(signal, SIG_IGN);
}

StopSignals::StopSignals(Handler handler) {
  const std::lock_guard lock(objects_mutex);
  if (objects++ > 0) return;
  stop_handler = handler;
  first_signal = requests = 0;
  last_request = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &earlier_actions[i]);
    const bool ignored = kStopSignals[i] == SIGHUP && earlier_actions[i].sa_handler == SIG_IGN;
    if (!ignored) sigaction(kStopSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(objects_mutex);
  if (--objects > 0) return;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (size_t i = 0; i < kStopSignals.size(); ++i)
    sigaction(kStopSignals[i], first_signal != 0 ? &ignore : &earlier_actions[i], nullptr);
}

void StopSignals::end_at_second_interrupt(int signal, int request) {
  if (signal != SIGINT || request < 2) return;
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

int StopSignals::received() { return first_signal; }

}  // namespace foretime
