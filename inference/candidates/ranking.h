#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace foretime::inference {

/// The candidates of a group with what a model says of them, in the order of the file. The lists but for the first two
/// may be empty.
struct Ranking {
  std::string group;
  std::vector<int64_t> candidates = {};  // their positions in the file
  std::vector<double> scores = {};       // lower is faster; +infinity: not scored
  std::vector<double> predicted = {};    // run times
  std::vector<int64_t> levels = {};
  std::vector<std::string> ids = {};  // "" where one has none
  std::vector<double> failures = {};  // chances not to build or run; NaN: not scored
};

/// Positions in the lists, fastest first, equal scores in their order, NaN last; only the first `top` if that is
/// above 0.
std::vector<size_t> fastest_first(const Ranking& ranking, int64_t top);

/// Lines of group,rank,candidate,id,score,predicted_runtime,level,failure, in the order of their ranks, below a line of
/// these names. predicted_runtime, level and failure are left out where no ranking has them. Scores, run times and
/// chances have the digits that a float needs.
std::string to_csv(std::span<const Ranking> rankings, int64_t top);
/// {"group": …, "ranking": [{"candidate": …, "score": …, …}, …]}; scores that are no finite numbers are null.
/// Numbers have the digits that a float needs.
nlohmann::json to_json(const Ranking& ranking, int64_t top);

/// One line of the contest's submission file (ID,TopConfigs): the collection and group, then candidate ids, fastest
/// first, joined by semicolons. A qualified group name (data/collection.h) counts without its collection. Layout lines
/// rank all candidates, tile lines the top five, as the contest asked.
std::string submission_line(const std::string& collection, const Ranking& ranking);

}  // namespace foretime::inference
