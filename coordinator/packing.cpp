#include "coordinator/packing.h"

#include <optional>
#include <string>

#include <unistd.h>

#include "sharding/dataset_index.h"

namespace foretime::coordinator {

std::vector<data::GroupHeader> share_headers(comm::Communicator& comm, const std::vector<data::GroupHeader>& headers) {
  sharding::DatasetIndex dataset;
  for (const auto& header : headers) dataset.entries.push_back({.header = header});
  std::vector<data::GroupHeader> shared;
  for (auto& entry : sharding::parse_dataset_index(comm.broadcast_bytes(sharding::serialize(dataset), 0)).entries)
    shared.push_back(std::move(entry.header));
  return shared;
}

void pack_collection(comm::Communicator& comm, const std::filesystem::path& file,
                     const std::vector<data::GroupHeader>& headers, const data::PackOptions& options) {
  const int64_t workers = data::pack_workers(headers.size(), comm.size(), options);
  if (workers == 1) {
    comm::run_together(comm, [&] {
      if (comm.rank() == 0) data::pack_collection(file, headers, options);
    });
    return;
  }
  const auto token = comm.broadcast_bytes(std::to_string(::getpid()), 0);
  std::optional<data::PackParts> parts;
  comm::run_together(comm, [&] { parts.emplace(file, headers, workers, token, comm.rank(), comm.size()); });
  comm::run_together(comm, [&] { parts->pack(headers, options); });
  comm::run_together(comm, [&] {
    if (comm.rank() == 0) parts->join();
  });
}

}  // namespace foretime::coordinator
