/// Writes what tests of installed libraries and fuzzers start from into a folder: bundles of small models, a stage
/// table, records, a syntax tree, a module.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/inference/small_models.h"

int main(int argc, char** argv) {
  namespace samples = foretime::inference::testing;
  if (argc != 2) {
    std::cerr << "usage: tuner_sample_files FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  foretime::inference::write_bundle(folder / "layout.foretime", samples::layout_bundle());
  foretime::inference::write_bundle(folder / "tile.foretime", samples::tile_bundle());
  foretime::inference::write_bundle(folder / "loops.foretime", samples::loops_bundle());
  foretime::inference::write_bundle(folder / "trees.foretime", samples::trees_bundle());
  foretime::inference::write_bundle(folder / "ensemble.foretime", samples::statement_cost_bundle(3));
  const auto workload = samples::sample_workload(30);
  std::ofstream(folder / "compute_dag.json") << workload.compute_dag << '\n';
  std::ofstream records(folder / "records.json");
  for (const auto& record : workload.records) records << record << '\n';
  std::ofstream(folder / "tree.json") << samples::sample_trees(1).front();
  std::ofstream(folder / "module.pb", std::ios::binary) << samples::sample_module();
  return 0;
}
