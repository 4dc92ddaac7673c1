#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace foretime::comm {

/// A group of ranks that are threads of this process: element i belongs to the thread that is rank i. Reductions add in
/// the order of the ranks. For tests, and for programs that embed the trainer. A late rank is named as by the other
/// backends; PeerLostError follows `abort` of any rank.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, std::chrono::duration<double> timeout);

}  // namespace foretime::comm
