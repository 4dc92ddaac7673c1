#pragma once

#include "cli/rank_command.h"

namespace foretime::cli {

/// Ranks by checkpoints: the best of a run, or several as an ensemble.
void rank_checkpoints(const RankArguments& arguments);

}  // namespace foretime::cli
