#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/threads.h"
#include "cli/dags_option.h"
#include "cli/data_command.h"

namespace foretime::cli {

void pack_records(const data::RecordPackRequest& request) {
  data::RecordPacking packing(request,
                              {.threads = threads_to_use(request.threads), .token = std::to_string(::getpid())});
  packing.pack();
  std::cout << packing.join();
}

void add_pack_records(CLI::App& data_command, const RecordPacker& run) {
  auto* command = data_command.add_subcommand(
      "pack-records",
      "Pack auto_scheduler tuning records into a collection of loop graphs, a group a workload; mpirun shares the "
      "workloads among ranks");
  const auto arguments = std::make_shared<data::RecordPackRequest>();
  command->add_option("out", arguments->out, "Collection to write (.foretime)")->required()->type_name("OUT");
  command->add_option("in", arguments->in, "Tuning records: JSON lines, plain or gzip")->required()->type_name("IN");
  add_dags_option(*command, arguments->dags, "Compute DAGs of the workloads (JSON lines, plain or gzip)")->required();
  auto* lines =
      command->add_option("--lines", arguments->lines,
                          "JSON with the 0-based lines of the first file to take: a list, or an object of lists");
  command->add_option("--member", arguments->member, "Member of that JSON")->needs(lines);
  auto* networks =
      command
          ->add_option("--networks", arguments->networks,
                       "JSON that says which lines of the first file belong to which network: a list of objects with "
                       "network, first_line and lines")
          ->excludes(lines);
  command->add_option("--take", arguments->take, "Networks to take; all but --never if left out")
      ->needs(networks)
      ->delimiter(',');
  command
      ->add_option("--never", arguments->never,
                   "Networks whose workloads are left out, also where other networks have them")
      ->needs(networks)
      ->delimiter(',');
  command->add_option("--most", arguments->most, "Records of a workload, chosen at random; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--least", arguments->least, "Workloads with fewer records are left out")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Of the choice of records")->capture_default_str();
  command
      ->add_option("--hardware", arguments->hardware,
                   "KEY=VALUE: data.hardware of the machine that was measured; known from each record if left out")
      ->delimiter(',');
  command->add_option("--threads", arguments->threads, "Workers of each rank; 0: cores / ranks on this host")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--memory", arguments->memory_mib, "MiB that a rank may take for programs being packed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([arguments, run] { run(*arguments); });
}

}  // namespace foretime::cli
