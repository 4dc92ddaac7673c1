#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/trials.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::experiments {

/// The trials of kind model that ran as jobs.
struct CollectedTrial {
  size_t trial = 0;              // position
  std::filesystem::path folder;  // of the attempt that succeeded, with its rankings.csv
  double seconds = 0;
};
struct Collection {
  std::vector<CollectedTrial> trials;
  std::map<std::string, int64_t> others;  // how many are in which other state; "not submitted" among them
};

/// Finds the jobs of `sweep_of` by their ids. `runs`: the agents' run root, as this machine sees it. Throws
/// jobs::JobsError where a job that succeeded has no rankings.csv there.
Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::QueueReader& reader, const std::filesystem::path& runs);

}  // namespace foretime::experiments
