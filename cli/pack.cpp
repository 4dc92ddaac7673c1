#include <optional>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "base/threads.h"
#include "cli/light/data_command.h"
#include "comm/communicator.h"
#include "configs/load.h"
#include "coordinator/packing.h"
#include "worker/run/launch.h"

namespace foretime::cli {
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
    coordinator::pack_collection(comm, arguments.out, headers, options);
    if (comm.rank() == 0) fmt::print("{}", packed_text(arguments, headers));
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
      if (comm.rank() == 0) fmt::print("{}", packing->join());
    });
  });
}

}  // namespace foretime::cli
