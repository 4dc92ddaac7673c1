#pragma once

#include <cstdint>
#include <vector>

namespace foretime::models {

/// What a model says of some candidates of a group.
struct Scores {
  std::vector<double> scores;        // lower means faster
  std::vector<double> predicted;     // run times in the group's unit; empty where the model only ranks
  std::vector<int64_t> levels = {};  // ascending with the scores: equal where they differ by noise only; empty: unknown
};

/// What several models say together of the same candidates in the same order: the geometric mean of the predicted run
/// times, as scores too, where every member predicts a run time above 0 for every candidate. Else the mean of the
/// members' scores, each with mean 0 and deviation 1 over these candidates (all 0 where they are equal), and no run
/// times. Levels are a single member's, whose scores are given back as they are.
Scores joined_scores(const std::vector<Scores>& members);

}  // namespace foretime::models
