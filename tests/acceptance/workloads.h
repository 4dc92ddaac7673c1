#pragma once

#include <string>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "tests/acceptance/place.h"

/// What the checks train and score.
namespace foretime::acceptance {

struct Workload {
  std::string name;
  configs::Settings settings;
  bool drops = false;  // random numbers of the device: two devices differ
};

/// Layout graphs in options.layouts; where it has none, made-up ones are written there. As .npz, which Python reads
/// too.
void make_layouts(const Options& options);

/// Returns options whose layout graphs, made up where there are none, are small enough for steps on a CPU.
Options with_small_layouts(const Options& options);

/// Returns options whose layout graphs, made up where there are none, have up to 20,000 nodes.
Options with_large_layouts(const Options& options);

/// The models whose steps are timed: residual GCN 2 x 32, SAGE 3 x 256, GAT, statement costs, TPGNN. Trained on four
/// layout graphs, or measured programs of samples/.
std::vector<Workload> timed_workloads(const Options& options);
/// These, and ways in which a step can go: segments, drawn plans, dropped edges.
std::vector<Workload> all_workloads(const Options& options);
/// The first of them.
Workload layout_workload(const Options& options);
/// The published baseline of TpuGraphs with the settings of its file: one live segment of each graph a step.
Workload published_workload(const Options& options);

/// Two groups of each kind for tests of models: made-up layouts, the same graphs as tiles, measured programs.
std::vector<data::Group> groups_of(data::CandidateKind kind, const Options& options);

/// Sets how a run in `folder` ends: nothing but its last report, without evaluations and checkpoints.
configs::Settings without_extras(configs::Settings settings, const std::filesystem::path& folder);

}  // namespace foretime::acceptance
