#pragma once

#include "experiments/document.h"
#include "jobs/sweep/sweep_yaml.h"

namespace foretime::experiments {

/// The `figures` of an experiment whose entries and metrics are known. Throws jobs::SweepError.
std::vector<FigureSpec> read_figures(const jobs::Entry& list, const std::string& origin, const Experiment& experiment);

}  // namespace foretime::experiments
