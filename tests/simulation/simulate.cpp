// foretime_simulate: plays clusters through on bad days, seed after seed, until an invariant does not hold.
#include <chrono>
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/simulation/cluster/cluster.h"

int main(int count, char** arguments) {
  foretime::simulation::ClusterOptions options;
  double total_hours = 0;
  bool go_on = false;
  CLI::App app("Simulates clusters with faults, one after the other, each from a seed of its own.");
  app.add_option("--seed", options.seed, "of the first")->capture_default_str();
  app.add_option("--hours", options.hours, "with faults, of each")->capture_default_str();
  app.add_option("--total", total_hours, "simulated hours in all; 0: one cluster");
  app.add_flag("--trace", options.trace, "say what happens");
  app.add_flag("!--undirected", options.directed,
               "only faults at any time, as seeds had them before there were others");
  app.add_option("--weakness", options.weakness, "break the product so, and see whether a seed notices");
  app.add_flag("--go-on", go_on, "also after a seed that fails");
  CLI11_PARSE(app, count, arguments);
  const auto start = std::chrono::steady_clock::now();
  foretime::simulation::ClusterReport all;
  int64_t clusters = 0, failed = 0;
  do {
    const auto report = simulate_cluster(options);
    ++clusters;
    all.hours += report.hours;
    all.steps += report.steps;
    all.commands += report.commands;
    all.jobs += report.jobs;
    all.attempts += report.attempts;
    all.succeeded += report.succeeded;
    all.faults += report.faults;
    all.agents_killed += report.agents_killed;
    all.redis_crashes += report.redis_crashes;
    for (const auto& [kind, count] : report.faults_by_kind) all.faults_by_kind[kind] += count;
    if (!report.broken.empty()) {
      ++failed;
      fmt::print("seed {}: {}\n", options.seed, fmt::join(report.broken, "; "));
      if (!go_on) break;
    }
    ++options.seed;
  } while (all.hours < total_hours);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(
      "{} clusters, {:.0f} simulated hours in {:.1f} s, {} commands, {} jobs, {} attempts, {} succeeded, {} faults, {} "
      "agents killed, {} crashes of Redis; {} failed\n",
      clusters, all.hours, seconds, all.commands, all.jobs, all.attempts, all.succeeded, all.faults, all.agents_killed,
      all.redis_crashes, failed);
  for (const auto& [kind, count] : all.faults_by_kind) fmt::print("  {} {}\n", count, kind);
  return failed == 0 ? 0 : 1;
}
