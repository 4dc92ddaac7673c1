#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace foretime::inference {

/// Holds a model's predictions for the candidates of a group, in the order of the file. All lists but `candidates` and
/// `scores` may be empty.
struct Ranking {
  std::string group;
  std::vector<int64_t> candidates = {};  // positions in the file
  std::vector<double> scores = {};       // lower is faster; +infinity: not scored
  std::vector<double> predicted = {};    // run times in the unit of the group
  std::vector<int64_t> levels = {};
  std::vector<std::string> ids = {};  // "" for a candidate without id
  std::vector<double> failures = {};  // chances that the program does not build or run; NaN: not scored
};

/// Returns positions in the lists, fastest first; equal scores keep their order, NaN comes last. Only the first `top`
/// positions are returned if `top` is above 0.
std::vector<size_t> fastest_first(const Ranking& ranking, int64_t top);

/// Returns lines of group,rank,candidate,id,score,predicted_runtime,level,failure, ordered by rank, after a header
/// line. predicted_runtime, level and failure are left out if no ranking has them. Scores, run times and chances have
/// the digits that identify a float.
std::string to_csv(std::span<const Ranking> rankings, int64_t top);
/// Returns {"group": …, "ranking": [{"candidate": …, "score": …, …}, …]}. Scores that are not finite are null. Numbers
/// have the digits that identify a float.
nlohmann::json to_json(const Ranking& ranking, int64_t top);

/// Returns one line of the contest's submission file (ID,TopConfigs): the collection and group, then candidate ids,
/// fastest first, separated by semicolons. The collection is removed from a qualified group name
/// (data/graphs/group.h). Layout lines rank all candidates, tile lines the top five, as in the contest.
std::string submission_line(const std::string& collection, const Ranking& ranking);

}  // namespace foretime::inference
