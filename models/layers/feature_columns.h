#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::models {

/// The columns of node features that model.features.columns names, ascending. A name is one of data::feature_names, or
/// the beginning of several followed by `*`; no names at all: every column. Throws ModelError for names that the data
/// do not have, and for features that are not those of data::feature_names.
std::vector<int64_t> chosen_columns(const std::vector<std::string>& names, data::CandidateKind kind,
                                    int64_t feature_count);

}  // namespace foretime::models
