#pragma once

namespace foretime::coordinator {

/// Exit codes of the program, as the README documents them. 1 is left to crashes.
enum ExitCode : int { kSuccess = 0, kInternal = 1, kUsage = 2, kData = 3, kComm = 4, kPeerLost = 5, kPreempted = 75 };

}  // namespace foretime::coordinator
