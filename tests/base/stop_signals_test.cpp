#include "base/stop_signals.h"

#include <array>
#include <atomic>
#include <csignal>

#include <gtest/gtest.h>

namespace foretime {
namespace {

std::atomic<int> last_signal_passed = 0, last_request_passed = 0;
void note_signal(int signal, int request) {
  last_signal_passed = signal;
  last_request_passed = request;
}

auto action_of(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

/// Each test leaves the actions as it found them.
class StopSignalsTest : public ::testing::Test {
 protected:
  StopSignalsTest() { last_signal_passed = last_request_passed = 0; }
  ~StopSignalsTest() override {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_DFL);
  }
};

TEST_F(StopSignalsTest, PassEachSignalAndCountRepetitionsAsOneRequest) {
  const StopSignals signals(note_signal);
  EXPECT_EQ(StopSignals::received(), 0);
  for (const int signal : {SIGHUP, SIGTERM, SIGTERM, SIGINT}) {
    raise(signal);
    EXPECT_EQ(last_signal_passed, signal);
    EXPECT_EQ(last_request_passed, 1) << "all of these came within a second";
  }
  EXPECT_EQ(StopSignals::received(), SIGHUP);
}

TEST_F(StopSignalsTest, AreIgnoredAfterwardsWhereOneCame) {
  {
    const StopSignals signals(note_signal);
    raise(SIGTERM);
  }
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EQ(action_of(signal), SIG_IGN);
    raise(signal);  // does not end this process
  }
  EXPECT_EQ(StopSignals::received(), SIGTERM);
}

TEST_F(StopSignalsTest, HaveTheirEarlierActionsAfterwardsWhereNoneCame) {
  { const StopSignals signals(note_signal); }
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) EXPECT_EQ(action_of(signal), SIG_DFL);
}

TEST_F(StopSignalsTest, LeaveAHangupIgnoredThatIsIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  const StopSignals signals(note_signal);
  raise(SIGHUP);
  EXPECT_EQ(StopSignals::received(), 0);
  raise(SIGTERM);
  EXPECT_EQ(StopSignals::received(), SIGTERM);
}

}  // namespace
}  // namespace foretime
