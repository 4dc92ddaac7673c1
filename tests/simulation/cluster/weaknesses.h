#pragma once

#include <string>
#include <utility>
#include <vector>

namespace foretime::simulation {

/// A way to break the product on purpose: a simulation that does not find it is worth nothing.
struct Weakness {
  std::string name, what;
  std::vector<std::pair<std::string, std::string>>
      edits{};                  // of the queue's scripts: text, and what stands in its place
  bool files_unsynced = false;  // fsync of a file does nothing
  bool rare = false;            // it takes hundreds of hours to show
};

const std::vector<Weakness>& weaknesses();
/// Throws std::invalid_argument with all names where there is none of this one.
const Weakness& weakness_named(const std::string& name);
/// The script with the weakness's edits; `applied` counts them.
std::string weakened(const Weakness& weakness, std::string script, int64_t& applied);

}  // namespace foretime::simulation
