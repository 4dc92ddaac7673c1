#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/graphs/group_header.h"

namespace foretime::data {

/// Starts the names of groups made by `foretime data synth`; every output about such a group says SYNTHETIC.
constexpr char kSyntheticPrefix[] = "synthetic_";

bool is_synthetic(const std::string& group_name);

/// Summarizes the run times of a group, in its unit. Quantiles interpolate linearly between order statistics, like
/// numpy's.
struct RuntimeSummary {
  static constexpr std::array<double, 7> kLevels = {0.01, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99};
  double minimum = 0.0, maximum = 0.0, mean = 0.0;
  std::array<double, kLevels.size()> quantiles{};
  int64_t distinct = 0;
};

/// Returns the summary; all zeros without run times.
RuntimeSummary summarize(std::vector<double> runtimes);

/// Holds the output of `foretime data inspect` for one group.
struct GroupReport : GroupSizes {
  std::string file, name;
  CandidateKind kind = CandidateKind::layout;
  RuntimeUnit unit = RuntimeUnit::nanoseconds;
  bool synthetic = false, labelled = false;
  int64_t constant_features = 0;           // columns with one value at all nodes
  int64_t node_types = 0;                  // node types that occur
  int64_t distinct_configurations = 0;     // number by configuration_hashes
  int64_t most_repeated = 0;               // candidates of the most frequent configuration
  int64_t fewest_rows = 0, most_rows = 0;  // distinct layout rows of a configurable node
  double mean_rows = 0.0;
  RuntimeSummary runtimes;       // successful candidates only; zeros without labels
  int64_t failed = 0;            // candidates
  double noise_ceiling = 0.0;    // highest τ-b that a model can reach (kendall.h); NaN without labels
  std::vector<std::string> odd;  // oddities_of() the group
};

GroupReport inspect_group(const Group& group, const std::string& file);

/// Returns some lines of text, each ended by a newline.
std::string to_text(const GroupReport& report);

/// Returns an indented JSON array with one object for each report; undefined numbers are null.
std::string to_json(const std::vector<GroupReport>& reports);

const char* unit_name(RuntimeUnit unit);

}  // namespace foretime::data
