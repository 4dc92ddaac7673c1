#pragma once

#include <string_view>

#include "inference/bundle/bundle.h"

namespace foretime::fuzz {

/// The bundle with a graph that was edited as the bytes say: other operations, inputs, matrices, weights and numbers,
/// in the bounds of what forms are written with. Most results do not fit together; those that do are forms that nobody
/// has written before.
inference::Bundle edited_graph(inference::Bundle bundle, std::string_view bytes);

}  // namespace foretime::fuzz
