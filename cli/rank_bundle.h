#pragma once

#include "cli/rank_command.h"

namespace foretime::cli {

/// Ranks by a bundle, without LibTorch: the candidates of graph files, the ones of arguments.candidates, tuning records
/// or save_json text. Throws SettingsError for arguments that do not fit the model or each other, DataError and the
/// errors of tuner/ for files.
void rank_bundle(const RankArguments& arguments);

}  // namespace foretime::cli
