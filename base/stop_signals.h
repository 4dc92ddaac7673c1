#pragma once

namespace foretime {

/// Makes failed writes ordinary errors that name their file: a file that grows past its limit (SIGXFSZ) and a pipe that
/// nobody reads any more (SIGPIPE) do not end the process. Call it first in main.
void ignore_write_signals();

/// Passes the signals that ask a process to end to a handler, while it lives: SIGTERM, SIGINT, and SIGHUP unless that
/// is ignored, as nohup does. Signals within a second count as one request, because GNU timeout, a closed terminal and
/// batch systems signal a process and its group, that is, twice. Of several objects that live at once, as those of
/// ranks that are threads, the first one's handler is called.
///
/// Afterwards the earlier actions are restored. If the process was asked to end, the signals are ignored instead, so
/// that a repeated one cannot end it before it has returned its exit code.
class StopSignals {
 public:
  /// Async-signal-safe. `request` is 1 for the first request, 2 for the next one, and so on; 1 again for repetitions of
  /// the first one.
  using Handler = void (*)(int signal, int request);

  /// By default, a second SIGINT (Ctrl-C) ends the process at once.
  explicit StopSignals(Handler handler = end_at_second_interrupt);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the first signal that came, 0 if none did.
  static int received();

 private:
  static void end_at_second_interrupt(int signal, int request);
};

}  // namespace foretime
