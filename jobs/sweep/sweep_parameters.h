#pragma once

#include <map>
#include <string>

#include "jobs/sweep/search_space.h"
#include "jobs/sweep/sweep_yaml.h"

namespace foretime::jobs {

/// The search space of `parameters`, with nested `parameters` flattened to full keys, sorted. Each key must be a
/// setting, and a continuous distribution may not be used for one that takes integers. Throws SweepError. Values are
/// checked against the settings' bounds elsewhere. `places`, where given, gets the place of each key.
SearchSpace read_parameters(const Entry& parameters, const std::string& origin,
                            std::map<std::string, std::string>* places = nullptr);

}  // namespace foretime::jobs
