#pragma once

namespace foretime {

/// Makes failed writes ordinary errors that name their file: a file that exceeds its size limit (SIGXFSZ) and a pipe
/// without reader (SIGPIPE) do not end the process. Must be called first in main.
void ignore_write_signals();

/// Passes the signals that ask a process to end to a handler, during its lifetime: SIGTERM, SIGINT, and SIGHUP unless
/// it is ignored, as by nohup. Signals within a second count as one request, because GNU timeout, a closed terminal and
/// batch systems signal both a process and its group. If several objects live at once, as with ranks that are threads,
/// the first one's handler is called.
///
/// The destructor restores the earlier actions. If the process was asked to end, the signals are ignored instead, so
/// that a repeated one cannot end it before it has returned its exit code.
class StopSignals {
 public:
  /// Handles a request; must be async-signal-safe. `request` is 1 for the first request, 2 for the next one, and so on;
  /// 1 again for repetitions of the first one.
  using Handler = void (*)(int signal, int request);

  /// Installs `handler`. The default one ends the process at a second SIGINT (Ctrl-C).
  explicit StopSignals(Handler handler = end_at_second_interrupt);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the first received signal, 0 if there was none.
  static int received();

 private:
  static void end_at_second_interrupt(int signal, int request);
};

}  // namespace foretime
