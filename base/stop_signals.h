#pragma once

#include "base/no_copy.h"

namespace foretime {

/// Ignores SIGXFSZ (a file exceeds its size limit) and SIGPIPE (a pipe has no reader), so that such writes fail with an
/// error instead of ending the process. Must be called first in main.
void ignore_write_signals();

/// Passes the signals that ask a process to end to a handler, during its lifetime: SIGTERM, SIGINT, and SIGHUP unless
/// it is ignored, as by nohup. Signals within a second after a request count as that request, because GNU timeout, a
/// closed terminal and batch systems signal both a process and its group. If several objects live at once, as with
/// ranks that are threads, the first one's handler is called.
///
/// The destructor of the last object restores the earlier actions. If the process was asked to end, it ignores the
/// signals instead, so that a repeated one cannot end the process before it has returned its exit code.
class StopSignals : NoCopy {
 public:
  /// Handles a signal; must be async-signal-safe. `request` is the number of requests so far, this one included, from
  /// 1; a signal that counts as an earlier request has that request's number.
  using Handler = void (*)(int signal, int request);

  /// Installs `handler`. The default one ends the process at a SIGINT (Ctrl-C) that is the second or a later request.
  explicit StopSignals(Handler handler = end_at_second_interrupt);
  ~StopSignals();

  /// Returns the number of the first signal since the first of the live objects was made; 0 if there was none.
  static int received();

 private:
  static void end_at_second_interrupt(int signal, int request);
};

}  // namespace foretime
