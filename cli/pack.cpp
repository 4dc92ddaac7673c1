#include <algorithm>
#include <iostream>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/threads.h"
#include "cli/data_command.h"
#include "cli/parsing/commands.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "coordinator/packing.h"
#include "models/model.h"
#include "plans/plan_source.h"
#include "plans/symbolic_plan.h"
#include "worker/run/launch.h"

namespace foretime::cli {
namespace {

/// Keeps the message plans of the models that some settings describe beside each layout group.
data::PlanMaker plan_maker(const std::vector<std::string>& settings_files,
                           const std::vector<data::GroupHeader>& headers) {
  models::InputSchema schema;
  for (const auto& header : headers) {
    schema = {header.kind, header.feature_count, std::max(schema.node_type_count, header.node_type_count)};
  }
  struct Wanted {
    plans::PlanRequest request;
    int64_t prune_hops;
  };
  std::vector<Wanted> wanted;
  for (const auto& file : settings_files) {
    const auto settings = configs::load_settings(file, {});
    const auto request = models::make_model(settings.model, schema)->plan_request();
    if (request.sharing != plans::Sharing::none) wanted.push_back({request, settings.data.prune_hops});
  }
  return [wanted](const data::Group& group) {
    data::PackedPlans plans;
    for (const auto& [request, hops] : wanted)
      plans[plans::symbolic_plan_key(request, hops)] =
          plans::to_bytes(*plans::make_symbolic_plan(data::pruned_group(group, hops), request, {}));
    return plans;
  };
}

void pack_among_ranks(const PackArguments& arguments) {
  configs::CommSettings comm_settings;
  worker::with_communicator(comm_settings, {configs::Device::cpu, 1}, [&](comm::Communicator& comm) {
    std::vector<data::GroupHeader> headers;
    comm::run_together(comm, [&] {
      if (comm.rank() == 0) headers = groups_to_pack(arguments);
    });
    headers = coordinator::share_headers(comm, headers);
    data::PackOptions options;
    options.threads = threads_to_use(arguments.threads, comm.local_size());
    options.memory = static_cast<uint64_t>(arguments.memory_mib) << 20;
    comm::run_together(comm, [&] {
      if (!arguments.plans.empty()) options.plan_maker = plan_maker(arguments.plans, headers);
    });
    coordinator::pack_collection(comm, arguments.out, headers, options);
    if (comm.rank() == 0) std::cout << packed_text(arguments, headers);
  });
}

void pack_records_among_ranks(const data::RecordPackRequest& request) {
  configs::CommSettings comm_settings;
  worker::with_communicator(comm_settings, {configs::Device::cpu, 1}, [&](comm::Communicator& comm) {
    const data::PackShare share{.process = comm.rank(),
                                .processes = comm.size(),
                                .threads = threads_to_use(request.threads, comm.local_size()),
                                .token = comm.broadcast_bytes(std::to_string(::getpid()), 0)};
    std::optional<data::RecordPacking> packing;
    comm::run_together(comm, [&] { packing.emplace(request, share); });
    comm::run_together(comm, [&] { packing->pack(); });
    comm::run_together(comm, [&] {
      if (comm.rank() == 0) std::cout << packing->join();
    });
  });
}

}  // namespace

void add_data_command(CLI::App& app) { add_data_command(app, pack_among_ranks, pack_records_among_ranks); }

}  // namespace foretime::cli
