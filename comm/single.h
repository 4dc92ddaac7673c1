#pragma once

#include <memory>

#include "comm/communicator.h"

namespace foretime::comm {

/// A group of one: every call returns its own input, so that callers have one path.
std::unique_ptr<Communicator> make_single_communicator();

}  // namespace foretime::comm
