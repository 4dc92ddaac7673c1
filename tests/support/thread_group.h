#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace foretime::testing {

/// Makes a group of ranks that are threads of this process: element i belongs to the thread that is rank i. Reductions
/// add in the order of the ranks. A late rank is named as by the other backends; PeerLostError follows `abort` of any
/// rank. `host_block` (Communicator::host_block, here of hosts that nobody has) must divide `size`.
std::vector<std::unique_ptr<comm::Communicator>> make_thread_group(int size, std::chrono::duration<double> timeout,
                                                                   int host_block = 1);

}  // namespace foretime::testing
