#pragma once

#include <string>
#include <vector>

namespace foretime {

/// Columns of text, padded to their display width, with a rule under the first row.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace foretime
