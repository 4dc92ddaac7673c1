#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "configs/metrics.h"
#include "configs/settings.h"
#include "data/graphs/group.h"

/// What trials predicted, and how good it was, from the rankings.csv that each leaves: trained models, baselines and a
/// second measurement are all judged by the same code.
namespace foretime::experiments {

/// A metric that experiments may have as a column; null for another name. Times are shown in milliseconds where the
/// run times' unit is known.
const configs::MetricInfo* find_metric(const std::string& name);
std::vector<std::string> metric_names();

/// How run times are shown: their factor and unit. Normalised ones (tile) have none.
struct TimeUnit {
  double factor = 1;
  std::string name;
};
TimeUnit time_unit(configs::DataFormat format);

/// One group's candidates, in the file's order of their ranks.
struct GroupPredictions {
  std::string group;
  std::vector<std::string> ids;          // as the data name them, else their numbers
  std::vector<double> scores, measured;  // lower scores are faster
  std::vector<double> predicted;         // of the unit of `measured`; empty where the model only ranks
  std::vector<int64_t> levels = {};      // of the scores, by which ties are told (models::Scores); empty: none
  std::string name = {}, set = {};       // of which `group` is made: the name, or "name, set" where several are read
};
using Predictions = std::vector<GroupPredictions>;  // by `group`

/// The groups with run times of some sets (test, valid, holdout) of a rankings.csv. Throws data::DataError for a
/// damaged one, and where it holds none of them. The column `level` may be missing.
Predictions read_rankings(const std::filesystem::path& file, const std::vector<std::string>& sets);
/// The test groups without run times; their ids are the numbers of their candidates, `measured` is empty. Throws
/// data::DataError for a damaged file.
Predictions read_unlabelled(const std::filesystem::path& file);

using Metrics = std::map<std::string, double>;
/// NaN for what is not there.
double value_of(const Metrics& metrics, const std::string& name);
Metrics metrics_of(const GroupPredictions& group, data::CandidateKind kind);
/// As worker::evaluate has them: ranking metrics are means over groups, errors are means over candidates. `accuracy` is
/// the contest's score, as Xu et al. report it: Kendall's tau of layouts, 1 - top-5 slowdown of tiles. What is not
/// defined is absent. Times are in the unit of the run times.
Metrics metrics_of(const Predictions& groups, data::CandidateKind kind);

/// What several seeds say together (models::joined_scores). Empty where the seeds were not measured on the same
/// candidates, as where data.max_eval_candidates draws some of them.
Predictions joined(const std::vector<Predictions>& seeds);

/// Second measurements by id. Throws data::DataError.
std::unordered_map<std::string, double> read_remeasured(const std::filesystem::path& file);

/// The second measurement taken for a prediction of the first, of the candidates that have one: what no model can be
/// expected to exceed. `drift`, the median ratio of second to first, is taken out where it is wanted.
struct Remeasurement {
  Predictions groups;
  double drift = 1;
  size_t candidates = 0;
};
Remeasurement as_prediction(const Predictions& measured, const std::unordered_map<std::string, double>& second,
                            bool without_drift);

}  // namespace foretime::experiments
