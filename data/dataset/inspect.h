#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/graphs/group_header.h"

namespace foretime::data {

/// Groups whose name starts so were made up by `foretime data synth`; everything that prints one says SYNTHETIC.
constexpr char kSyntheticPrefix[] = "synthetic_";

bool is_synthetic(const std::string& group_name);

/// Run times of a group, in its own unit. Quantiles interpolate linearly between order statistics, as numpy does.
struct RuntimeSummary {
  static constexpr std::array<double, 7> kLevels = {0.01, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99};
  double minimum = 0.0, maximum = 0.0, mean = 0.0;
  std::array<double, kLevels.size()> quantiles{};
  int64_t distinct = 0;
};

/// All zeros without run times.
RuntimeSummary summarize(std::vector<double> runtimes);

/// What `foretime data inspect` prints of one group.
struct GroupReport : GroupSizes {
  std::string file, name;
  CandidateKind kind = CandidateKind::layout;
  RuntimeUnit unit = RuntimeUnit::nanoseconds;
  bool synthetic = false, labelled = false;
  int64_t constant_features = 0;           // columns with one value at all nodes
  int64_t node_types = 0;                  // that occur
  int64_t distinct_configurations = 0;     // by configuration_hashes
  int64_t most_repeated = 0;               // candidates of the commonest configuration
  int64_t fewest_rows = 0, most_rows = 0;  // distinct layout rows of a configurable node
  double mean_rows = 0.0;
  RuntimeSummary runtimes;       // of those that ran; zeros without labels
  int64_t failed = 0;            // candidates
  double noise_ceiling = 0.0;    // τ-b that no model can pass (kendall.h); NaN without labels
  std::vector<std::string> odd;  // oddities_of() the group's header
};

GroupReport inspect_group(const Group& group, const std::string& file);

/// Some lines of text, the last one ended.
std::string to_text(const GroupReport& report);

/// A JSON array of one object a report, indented; numbers that are not defined are null.
std::string to_json(const std::vector<GroupReport>& reports);

const char* unit_name(RuntimeUnit unit);

}  // namespace foretime::data
