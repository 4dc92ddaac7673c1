#pragma once

#include "cli/experiment/document.h"
#include "jobs/sweep_yaml.h"

namespace foretime::cli {

/// The `figures` of an experiment whose entries and metrics are known. Throws jobs::SweepError.
std::vector<FigureSpec> read_figures(const jobs::Entry& list, const std::string& origin, const Experiment& experiment);

}  // namespace foretime::cli
