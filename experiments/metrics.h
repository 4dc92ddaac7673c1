#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "metrics/metric_table.h"

/// Evaluates predictions from the rankings.csv of trials: of trained models, baselines and second measurements.
namespace foretime::experiments {

/// Returns the metric `name` (without a set, such as mae); null if experiments cannot have it as a column.
const metrics::Metric* find_metric(const std::string& name);
/// Returns the names of all metrics that experiments can have as columns.
std::vector<std::string> metric_names();

/// Describes the unit in which run times are shown (display unit).
struct TimeUnit {
  double factor = 1;  // display unit / unit of the data: shown time = time * factor
  std::string name;   // "ms"; "": normalised times (tile), which have no unit
};
/// Returns the display unit for data of a format (data.format).
TimeUnit time_unit(configs::DataFormat format);

/// Holds the predictions of one group, with candidates in the order of the rows of rankings.csv.
struct GroupPredictions {
  std::string group;
  std::vector<std::string> ids;          // [candidates] id in the data, else number of the candidate
  std::vector<double> scores, measured;  // [candidates] lower scores are faster; `measured` are run times
  std::vector<double> predicted;         // [candidates] run times; empty if the model only ranks
  std::vector<int64_t> levels = {};      // [candidates] candidates of one level are tied; empty: no levels
  std::string name = {}, set = {};       // `group` is the name, or "name, set" if several sets were read
};
using Predictions = std::vector<GroupPredictions>;

/// Returns the groups of `sets` (test, valid, holdout) in a rankings.csv, by name. Rows without a run time are skipped;
/// the column `level` may be missing. Throws as read_foreign, and DataError for a missing or damaged file or no groups.
Predictions read_rankings(const std::filesystem::path& file, const std::vector<std::string>& sets);
/// Returns the test groups without run times, by name; ids are candidate numbers, and `measured` is empty. Returns an
/// empty list if there are none. Throws DataError for a missing or damaged file, and the errors of read_foreign.
Predictions read_unlabelled(const std::filesystem::path& file);

using Metrics = std::map<std::string, double>;
/// Returns the value of the metric `name`; NaN if `metrics` does not have it.
double value_of(const Metrics& metrics, const std::string& name);
/// Returns the metrics of one group by name; undefined ones are absent. `kind` selects the contest's score, also named
/// `accuracy`: Kendall's tau for layouts, 1 - top-5 slowdown for tiles. Times are in the unit of the data.
Metrics metrics_of(const GroupPredictions& group, data::CandidateKind kind);
/// Returns the metrics over all groups that experiments can have as columns: ranking metrics are means over groups,
/// errors are means over candidates. Undefined metrics are absent. Times are in the unit of the data.
Metrics metrics_of(const Predictions& groups, data::CandidateKind kind);

/// Joins the predictions of one or more seeds by metrics::joined_scores. Returns an empty list if the seeds were not
/// evaluated on the same candidates, for example if data.max_eval_candidates samples them.
Predictions joined(const std::vector<Predictions>& seeds);

/// Reads the second measurements of an .npz with the members id and runtime. Returns run times by candidate id. Throws
/// DataError if the file is damaged or a run time is not finite and above 0; StorageError if the storage fails.
std::unordered_map<std::string, double> read_remeasured(const std::filesystem::path& file);

/// Holds second measurements of candidates as predictions of the first, which no model can be expected to exceed.
struct Remeasurement {
  Predictions groups;
  double drift = 1;       // median over candidates of second / first run time; 1 without candidates
  size_t candidates = 0;  // number of candidates with a second measurement
};
/// Returns the candidates of `measured` that are in `second` (key: id), with the second measurement as prediction,
/// which `without_drift` divides by the drift. Groups without such candidates are omitted.
Remeasurement as_prediction(const Predictions& measured, const std::unordered_map<std::string, double>& second,
                            bool without_drift);

}  // namespace foretime::experiments
