#include "models/losses/loss_targets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/index_range.h"
#include "models/gpu/launch.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using gpu::Arena;

constexpr int64_t kShort = 32;        // candidates of a group
constexpr double kBehindAll = -1e30;  // logarithm of a weight that is practically 0

/// Holds the candidates of a group that count, in the order of their targets.
struct Ranking {
  std::vector<int64_t> order;
  double weight = 0;
  int64_t ran = 0;  // number of successful candidates; failed ones come last
  int64_t size() const { return order.size(); }
};

void check_groups(const LossGroups& of) {
  const auto scores = std::ssize(of.targets);
  const auto& starts = of.group_ptr;
  FORETIME_CHECK(starts.size() == of.weights.size() + 1 && starts.front() == 0 && starts.back() == scores,
                 "group_ptr [{}] for {} weights and {} scores", fmt::join(starts, ", "), of.weights.size(), scores);
  FORETIME_CHECK(std::ranges::is_sorted(starts), "group_ptr [{}]", fmt::join(starts, ", "));
}

/// Returns the rankings of all groups with weight and candidates, the largest first.
std::vector<Ranking> rankings_of(const LossGroups& of) {
  std::vector<Ranking> all;
  for (size_t g = 0; g < of.weights.size(); ++g) {
    if (of.weights[g] == 0.0) continue;
    Ranking ranking{{}, of.weights[g]};
    for (const int64_t c : entries_of(of.group_ptr, g)) {
      if (!of.excluded.empty() && of.excluded[c] != 0) continue;
      ranking.order.push_back(c);
      if (!std::isinf(of.targets[c])) ++ranking.ran;
    }
    if (ranking.order.empty()) continue;
    std::stable_sort(ranking.order.begin(), ranking.order.end(),
                     [&](int64_t a, int64_t b) { return of.targets[a] < of.targets[b]; });
    all.push_back(std::move(ranking));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return all;
}

/// Returns the first groups of `left`, for one block: all at least half as long as the first, or the first is short.
std::span<const Ranking> next_block(std::span<const Ranking> left) {
  size_t count = 1;
  while (count < left.size() && (left[count].size() * 2 >= left[0].size() || left[0].size() <= kShort)) ++count;
  return left.first(count);
}

/// Makes the arrays of a block. In a row, place i from the end is that of the i-th of the ranking.
class BlockMaker {
 public:
  BlockMaker(std::span<const Ranking> rankings, const LossGroups& of, torch::Dtype dtype, Arena& arena)
      : rankings_(rankings), of_(of), dtype_(dtype), arena_(arena) {
    block_.groups = rankings.size();
    // LibTorch's GPU scans a single row in parts, whose order is another each time, and several rows each by itself.
    if (block_.groups == 1 && gpu::uses_gpu_kernels(arena.device())) block_.groups = 2;
    block_.longest = rankings.front().size();
  }

  void add_places() {
    const int64_t candidates = of_.targets.size(), places = block_.groups * block_.longest;
    std::vector<int64_t> starts(places + 1), place_of(candidates, -1);
    std::vector<int32_t> columns, turned;
    for_each_place([&](size_t place, const Ranking&, int64_t, int64_t candidate) {
      starts[place + 1] = 1;
      place_of[candidate] = place;
    });
    std::vector<int64_t> candidate_at(places, -1), turned_starts = {0};
    for (int64_t c = 0; c < candidates; ++c) {
      const auto place = place_of[c];
      if (place >= 0) {
        candidate_at[place] = c;
        turned.push_back(place);
      }
      turned_starts.push_back(turned.size());
    }
    for (int64_t place = 0; place < places; ++place) {
      starts[place + 1] += starts[place];
      if (const auto c = candidate_at[place]; c >= 0) columns.push_back(c);
    }
    const auto pointers = row_ptr_type_on(arena_.device());
    auto& matrix = block_.places;
    matrix.rows = places;
    matrix.cols = candidates;
    matrix.row_ptr = arena_.add(starts, pointers);
    matrix.columns = arena_.add(columns, torch::kInt);
    matrix.transposed_row_ptr = arena_.add(turned_starts, pointers);
    matrix.transposed_columns = arena_.add(turned, torch::kInt);
  }

  void add_list() {
    block_.list_offsets = of_each_place(kBehindAll, [](const Ranking&, int64_t, int64_t) { return 0.0; });
    // Nobody knows an order of those that failed: they stand behind all others.
    const auto weight = [](const Ranking& of, int64_t i, int64_t) { return i < of.ran ? of.weight : 0.0; };
    block_.list_weights = of_each_place(0.0, weight);
    block_.list_log_weights = of_each_place(-std::numeric_limits<double>::infinity(),
                                            [&](const auto&... place) { return std::log(weight(place...)); });
  }

  void add_pairs() {
    std::vector<double> weights(block_.groups);
    for (size_t g = 0; g < rankings_.size(); ++g) weights[g] = rankings_[g].weight / std::max(1.0, pairs(rankings_[g]));
    double rank = 0;
    block_.ranks = of_each_place(std::numeric_limits<double>::quiet_NaN(), [&](const Ranking& of, int64_t i, int64_t) {
      if (i == 0) rank = 0;
      if (i > 0 && target(of, i) != target(of, i - 1)) ++rank;
      return rank;
    });
    block_.pair_weights = arena_.add(weights, dtype_).view({block_.groups, 1, 1});
  }

  void add_residuals() {
    block_.targets =
        of_each_place(0.0, [&](const Ranking& of, int64_t i, int64_t) { return i < of.ran ? target(of, i) : 0.0; });
    block_.residual_weights =
        of_each_place(0.0, [](const Ranking& of, int64_t i, int64_t) { return i < of.ran ? of.weight / of.ran : 0.0; });
  }

  void add_failures(double factor) {
    block_.failed = of_each_place(0.0, [](const Ranking& of, int64_t i, int64_t) { return i < of.ran ? 0.0 : 1.0; });
    block_.failure_weights =
        of_each_place(0.0, [&](const Ranking& of, int64_t, int64_t) { return factor * of.weight / of.size(); });
  }

  LossBlock take() { return std::move(block_); }

 private:
  double target(const Ranking& of, int64_t i) const { return of_.targets[of.order[i]]; }
  /// Returns the number of pairs with different targets.
  double pairs(const Ranking& of) const {
    double pairs = 0;
    int64_t ties = 0;  // number of earlier candidates with the target of the i-th
    for (int64_t i = 1; i < of.size(); ++i) {
      ties = target(of, i) == target(of, i - 1) ? ties + 1 : 0;
      pairs += i - ties;
    }
    return pairs;
  }
  /// visit(place, ranking, i, candidate), in the order of the ranking.
  template <class Visit>
  void for_each_place(const Visit& visit) const {
    for (size_t g = 0; g < rankings_.size(); ++g) {
      const auto& of = rankings_[g];
      const int64_t end = (g + 1) * block_.longest;
      for (int64_t i = 0; i < of.size(); ++i) visit(static_cast<size_t>(end - 1 - i), of, i, of.order[i]);
    }
  }
  /// [groups, longest] of(ranking, i, candidate), and `padding` where nothing stands.
  template <class Of>
  torch::Tensor of_each_place(double padding, const Of& of) {
    std::vector<double> values(block_.groups * block_.longest, padding);
    for_each_place([&](size_t place, const Ranking& ranking, int64_t i, int64_t candidate) {
      values[place] = of(ranking, i, candidate);
    });
    return arena_.add(values, dtype_).view({block_.groups, block_.longest});
  }

  std::span<const Ranking> rankings_;
  const LossGroups& of_;
  torch::Dtype dtype_;
  Arena& arena_;
  LossBlock block_;
};

}  // namespace

int64_t max_loss_target_bytes(const LossGroups& groups) {
  const auto candidates = std::ssize(groups.targets);
  // All blocks have at most twice as many places as candidates, or kShort a group, and a row more than they need.
  const int64_t places = 3 * candidates + kShort * std::ssize(groups.weights);
  const int64_t blocks = 2 + static_cast<int64_t>(std::log2(candidates + 1));
  return blocks * (Arena::max_bytes<int64_t>(candidates + 1) + 2 * Arena::max_bytes<int32_t>(candidates) +
                   12 * Arena::max_bytes<double>(1)) +
         Arena::max_bytes<int64_t>(places + blocks) + 9 * Arena::max_bytes<double>(places);
}

LossTargets loss_targets(const configs::LossSettings& settings, const LossGroups& groups, bool predicts_failures,
                         torch::Dtype dtype, Arena& arena) {
  check_groups(groups);
  LossTargets result;
  result.candidates = groups.targets.size();
  const auto all = rankings_of(groups);
  const auto kind = kind_of(settings.type);
  const bool residuals =
      kind == configs::LossKind::residual || settings.mse_weight > 0.0 || settings.huber_weight > 0.0;
  for (std::span<const Ranking> left = all; !left.empty();) {
    const auto rankings = next_block(left);
    left = left.subspan(rankings.size());
    BlockMaker maker(rankings, groups, dtype, arena);
    maker.add_places();
    if (kind == configs::LossKind::list) maker.add_list();
    if (kind == configs::LossKind::pair) maker.add_pairs();
    if (residuals) maker.add_residuals();
    if (predicts_failures) maker.add_failures(settings.failure_weight);
    result.blocks.push_back(maker.take());
  }
  return result;
}

}  // namespace foretime::models
