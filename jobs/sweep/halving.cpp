#include <cmath>

#include "jobs/error.h"
#include "jobs/sweep/sweep_document.h"

namespace foretime::jobs {
namespace {

/// No run has more evaluations, and no sweep more rungs.
constexpr double kMostIterations = 1e9;
constexpr size_t kMostRungs = 64;

void check_eta(double eta) {
  if (!(eta > 1) || !std::isfinite(eta)) throw SweepError("eta: found {}, expected > 1", eta);
}

}  // namespace

HalvingRule halving_from_min(int64_t min_iter, double eta) {
  check_eta(eta);
  if (min_iter < 1) throw SweepError("min_iter: found {}, expected at least 1", min_iter);
  HalvingRule rule{{}, eta};
  for (double rung = min_iter; rung <= kMostIterations && rule.rungs.size() < kMostRungs; rung *= eta) {
    const int64_t whole = rung;
    if (rule.rungs.empty() || whole > rule.rungs.back()) rule.rungs.push_back(whole);
  }
  return rule;
}

HalvingRule halving_from_max(int64_t max_iter, int64_t brackets, double eta) {
  check_eta(eta);
  if (max_iter < 1) throw SweepError("max_iter: found {}, expected at least 1", max_iter);
  if (brackets < 1) throw SweepError("s: found {}, expected at least 1", brackets);
  HalvingRule rule{{}, eta};
  double rung = max_iter;
  for (int64_t k = 1; k <= brackets && rule.rungs.size() < kMostRungs; ++k) {
    rung /= eta;
    if (rung < 1) break;
    const int64_t whole = rung;
    if (rule.rungs.empty() || whole < rule.rungs.front()) rule.rungs.insert(rule.rungs.begin(), whole);
  }
  if (rule.rungs.empty())
    throw SweepError(
        "max_iter: found {} with eta {}, which leaves no rung of at least one evaluation; raise max_iter, lower eta, "
        "or use min_iter",
        max_iter, eta);
  return rule;
}

}  // namespace foretime::jobs
