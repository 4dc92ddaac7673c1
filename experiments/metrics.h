#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "metrics/metric_table.h"

/// Evaluates the predictions of trials from the rankings.csv that each writes: trained models, baselines and a second
/// measurement are evaluated by the same code.
namespace foretime::experiments {

/// A metric that experiments may have as a column; null for another name. Times are shown in milliseconds where the
/// run times' unit is known.
const metrics::Metric* find_metric(const std::string& name);
std::vector<std::string> metric_names();

/// Gives the factor and unit in which run times are shown. Normalised times (tile) have no unit.
struct TimeUnit {
  double factor = 1;
  std::string name;
};
TimeUnit time_unit(configs::DataFormat format);

/// Holds the candidates of one group, in the order of their ranks in the file.
struct GroupPredictions {
  std::string group;
  std::vector<std::string> ids;          // ids from the data, or else numbers of the candidates
  std::vector<double> scores, measured;  // lower scores are faster
  std::vector<double> predicted;         // unit of `measured`; empty if the model only ranks
  std::vector<int64_t> levels = {};      // levels of the scores, which define ties (models::Scores); empty: none
  std::string name = {}, set = {};       // parts of `group`, which is the name, or "name, set" if several sets are read
};
using Predictions = std::vector<GroupPredictions>;  // key: `group`

/// Returns the labelled groups of some sets (test, valid, holdout) in a rankings.csv. The column `level` may be
/// missing. Throws data::DataError for a damaged file or one without such groups.
Predictions read_rankings(const std::filesystem::path& file, const std::vector<std::string>& sets);
/// Returns the test groups without run times; their ids are the numbers of their candidates, and `measured` is empty.
/// Throws data::DataError for a damaged file.
Predictions read_unlabelled(const std::filesystem::path& file);

using Metrics = std::map<std::string, double>;
/// Returns the value of a metric; NaN if it is missing.
double value_of(const Metrics& metrics, const std::string& name);
Metrics metrics_of(const GroupPredictions& group, data::CandidateKind kind);
/// Returns metrics over all groups, like worker::evaluate: ranking metrics are means over groups, errors are means over
/// candidates. `accuracy` is the contest's score, as in Xu et al.: Kendall's tau for layouts, 1 - top-5 slowdown for
/// tiles. Undefined metrics are absent. Times are in the unit of the run times.
Metrics metrics_of(const Predictions& groups, data::CandidateKind kind);

/// Joins the predictions of several seeds (models::joined_scores). Returns empty if the seeds were not evaluated on the
/// same candidates, for example when data.max_eval_candidates samples them.
Predictions joined(const std::vector<Predictions>& seeds);

/// Reads second measurements by id. Throws data::DataError.
std::unordered_map<std::string, double> read_remeasured(const std::filesystem::path& file);

/// Treats the second measurement of candidates as a prediction of the first, which no model can be expected to exceed.
/// `drift` is the median ratio of second to first.
struct Remeasurement {
  Predictions groups;
  double drift = 1;
  size_t candidates = 0;
};
/// Returns the candidates in `second` with their second measurement as prediction. `without_drift` divides it by the
/// drift.
Remeasurement as_prediction(const Predictions& measured, const std::unordered_map<std::string, double>& second,
                            bool without_drift);

}  // namespace foretime::experiments
