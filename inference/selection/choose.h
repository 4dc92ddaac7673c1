#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "configs/choice.h"
#include "inference/kernels/dense_kernels.h"

/// Selection of candidates to measure, by their positions in a model's embedding and the model's uncertainty. TCL's
/// sampler (arXiv 2604.12891) asks for programs that are representative, diverse and uncertain; the definitions are
/// Foretime's.
namespace foretime::inference {

/// Names the ways of selecting candidates.
///   representative  the candidates are divided into as many parts as choices, and the candidate nearest to the middle
///   of
///                   each part is chosen: dense regions get more choices
///   diverse         each choice is the candidate farthest from all earlier choices and from measured candidates
///   (greedy
///                   k-centre: Gonzalez 1985; Sener and Savarese, arXiv 1708.00489)
///   uncertain       candidates on which the members of an ensemble disagree most
///   mixed           representative candidates of the more uncertain half
///   random          drawn without the model
FORETIME_CHOICE(SelectionMethod, representative, diverse, uncertain, mixed, random);

/// Holds the candidates of one task.
struct SelectionPool {
  Matrix points = {};                    // [candidates, then measured ones; columns]
  int64_t candidates = 0;                // number of candidates: the first rows of `points`
  std::vector<double> uncertainty = {};  // [candidates]; only for uncertain and mixed
  uint64_t key = 0;                      // key of random draws: seed and task
};

/// Returns `count` distinct candidates, at most pool.candidates, in the order of their choice. Only `random` depends on
/// chance. Ties go to the first candidate. With M points of E columns, representative and mixed take O(M E log M),
/// diverse at most O(count M E), the other methods O(M log M).
std::vector<int64_t> choose(SelectionMethod method, const SelectionPool& pool, int64_t count);

/// Implements SelectionMethod::diverse for choose().
std::vector<int64_t> choose_diverse(const Matrix& points, int64_t candidates, int64_t count);
/// Implements SelectionMethod::uncertain for choose().
std::vector<int64_t> choose_uncertain(std::span<const double> uncertainty, int64_t count);
/// Implements SelectionMethod::representative for choose(). `among` holds the candidates that may be chosen, ascending;
/// rows from `candidates` on are measured. A part gets choices such that choices and measured rows in it are in
/// proportion to its candidates.
std::vector<int64_t> choose_representative(const Matrix& points, int64_t candidates, std::vector<int64_t> among,
                                           int64_t count);

/// Returns the number of choices of each task, `number` in total: equal numbers, except that smaller tasks give all
/// their candidates, and the first tasks get one more each if a remainder is left. `number` is at most the sum of
/// `sizes`.
std::vector<int64_t> equal_shares(std::span<const int64_t> sizes, int64_t number);

/// Returns the disagreement of an ensemble: the deviation over members of their scores, each standardised over the
/// candidates (mean 0, deviation 1) so that only the order matters. scores [members][candidates] → [candidates].
std::vector<double> disagreement(const std::vector<std::vector<float>>& scores);

/// The largest number of columns of points.
constexpr int64_t kPointColumns = 64;

/// Returns points of candidates for these methods: the blocks [rows, any columns] joined by columns, each scaled to a
/// mean squared distance of 1 from its mean. More than kPointColumns columns are projected by a fixed random matrix
/// onto that number (Johnson and Lindenstrauss 1984).
Matrix points_of(const std::vector<Matrix>& blocks);

}  // namespace foretime::inference
