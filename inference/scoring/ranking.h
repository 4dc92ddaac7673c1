#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace foretime::inference {

/// Holds a model's predictions for candidates of a group. Lists have an item for each candidate, in the order of the
/// file; all but `candidates` and `scores` may be empty.
struct Ranking {
  std::string group;
  std::vector<int64_t> candidates = {};  // positions in the file
  std::vector<double> scores = {};       // lower is faster; +infinity: the candidate was not scored
  std::vector<double> predicted = {};    // predicted run times in the unit of the group
  std::vector<int64_t> levels = {};   // tie level of each candidate: equal levels mean equally fast; 0 is the fastest
  std::vector<std::string> ids = {};  // "" for a candidate without id
  std::vector<double> failures = {};  // probability that the program does not build or run; NaN: not scored
};

/// Returns positions in the lists of `ranking`, lowest score first; equal scores keep their order, NaN comes last. If
/// `top` is above 0, returns at most the first `top` positions.
std::vector<size_t> fastest_first(const Ranking& ranking, int64_t top);

/// Returns a CSV: a header line and a line for each of the `top` fastest candidates of each ranking (all if `top` is
/// 0). Columns: group, rank (from 0), candidate, id, score, predicted_runtime, level, failure; the last three are left
/// out if no ranking has them. Scores, run times and probabilities have the digits that identify a float.
std::string to_csv(std::span<const Ranking> rankings, int64_t top);
/// Returns {"group": …, "ranking": [{"candidate": …, "score": …, …}, …]} with the `top` fastest candidates, all if
/// `top` is 0. Numbers have the digits that identify a float; those that are not finite are null.
nlohmann::json to_json(const Ranking& ranking, int64_t top);

/// Returns a line, with its end, of the contest's submission (ID,TopConfigs): collection:group, then candidate numbers,
/// fastest first, separated by semicolons. The collection is removed from a qualified group name (data/graphs/group.h).
/// The line has the five fastest candidates if the collection begins with "tile", else all.
std::string submission_line(const std::string& collection, const Ranking& ranking);

}  // namespace foretime::inference
