#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/graphs/group_header.h"

namespace foretime::data {

/// Summarizes run times or other values, in their unit.
struct RuntimeSummary {
  static constexpr std::array<double, 7> kLevels = {0.01, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99};
  double minimum = 0.0, maximum = 0.0, mean = 0.0;
  std::array<double, kLevels.size()> quantiles{};  // quantile at each of kLevels, interpolated linearly as by numpy
  int64_t distinct = 0;                            // number of different values
};

/// Returns the summary of `runtimes`; all zeros if there are none.
RuntimeSummary summarize(std::vector<double> runtimes);

/// Holds the output of `foretime data inspect` for one group.
struct GroupReport : GroupSizes {
  std::string file, name;
  CandidateKind kind = CandidateKind::layout;
  RuntimeUnit unit = RuntimeUnit::nanoseconds;
  bool labelled = false;
  int64_t constant_features = 0;           // columns with one value at all nodes
  int64_t node_types = 0;                  // node types that occur
  int64_t distinct_configurations = 0;     // number of different configuration_hashes
  int64_t most_repeated = 0;               // number of candidates of the most frequent configuration
  int64_t fewest_rows = 0, most_rows = 0;  // smallest and largest number of distinct layout rows of a configurable node
  double mean_rows = 0.0;                  // mean number of distinct layout rows over the configurable nodes
  RuntimeSummary runtimes;                 // run times of the candidates that ran; zeros without labels
  int64_t failed = 0;                      // number of candidates that failed
  double noise_ceiling = 0.0;    // highest τ-b that a model can reach (noise_ceiling_tau); NaN without labels
  std::vector<std::string> odd;  // warnings: oddities_of() the group
};

/// Returns the report of a group, without `odd`; `file` is only copied into the report.
GroupReport inspect_group(const Group& group, const std::string& file);

/// Returns some lines of text, each ended by a newline.
std::string to_text(const GroupReport& report);

/// Returns an indented JSON array with one object for each report; undefined numbers are null.
std::string to_json(const std::vector<GroupReport>& reports);

const char* unit_name(RuntimeUnit unit);  // "ns", "s" or "× normaliser"

}  // namespace foretime::data
