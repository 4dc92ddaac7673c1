#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "configs/choice.h"
#include "inference/kernels/dense_kernels.h"

/// Which of many candidates are worth measuring, by where a model places them and how sure it is of them. TCL's sampler
/// (arXiv 2604.12891) asks for programs that are representative, diverse and uncertain; the definitions are our own.
namespace foretime::inference {

///   representative  the candidates are divided until there are as many parts as choices, and of each part the one
///                   nearest to its middle is chosen: crowded places get more choices
///   diverse         each choice is the candidate farthest from all before it and from what is measured (greedy
///                   k-centre: Gonzalez 1985; Sener and Savarese, arXiv 1708.00489)
///   uncertain       those of which the members of an ensemble disagree most
///   mixed           representative ones of the more uncertain half
///   random          drawn without looking at the model
FORETIME_CHOICE(SelectionMethod, representative, diverse, uncertain, mixed, random);

/// The candidates of one task.
struct SelectionPool {
  Matrix points = {};                    // [candidates, then those that are measured already; columns]
  int64_t candidates = 0;                // rows of them
  std::vector<double> uncertainty = {};  // [candidates]; only uncertain and mixed look at it
  uint64_t key = 0;                      // of what `random` draws: seed and task
};

/// `count` distinct candidates, at most pool.candidates, in the order in which they were chosen. Only `random` depends
/// on chance. Ties go to the candidate that stands first. With M points of E columns: representative and mixed take O(M
/// E log M), diverse at most O(count M E), the others O(M log M).
std::vector<int64_t> choose(SelectionMethod method, const SelectionPool& pool, int64_t count);

/// The parts of choose().
std::vector<int64_t> choose_diverse(const Matrix& points, int64_t candidates, int64_t count);
std::vector<int64_t> choose_uncertain(std::span<const double> uncertainty, int64_t count);
/// `among`: candidates that may be chosen, ascending; rows from `candidates` on are measured. A part gets choices so
/// that with what is measured in it, it has its share by the number of candidates.
std::vector<int64_t> choose_representative(const Matrix& points, int64_t candidates, std::vector<int64_t> among,
                                           int64_t count);

/// How many candidates of each task are chosen, `number` in all: equally many of each; tasks that have fewer give all,
/// and of what is left over the first tasks get one each. `number` is at most the sum of `sizes`.
std::vector<int64_t> equal_shares(std::span<const int64_t> sizes, int64_t number);

/// How far the members of an ensemble disagree: the deviation over members of scores that were standardised over the
/// candidates (mean 0, deviation 1), so that it is about their order. scores [members][candidates] → [candidates].
std::vector<double> disagreement(const std::vector<std::vector<float>>& scores);

/// Columns that points have at most.
constexpr int64_t kPointColumns = 64;

/// Points of candidates for the methods above: the blocks [rows, any columns] side by side, each scaled to a mean
/// squared distance of 1 from its mean, and where there are more than kPointColumns columns, projected at random onto
/// so many (Johnson and Lindenstrauss 1984), always in the same way.
Matrix points_of(const std::vector<Matrix>& blocks);

}  // namespace foretime::inference
