#include "coordinator/agree.h"

#include <exception>

#include <fmt/format.h>

#include "configs/load.h"
#include "coordinator/error.h"
#include "data/error.h"
#include "models/model.h"

namespace foretime::coordinator {

int exit_code_of(const std::exception& error) {
  if (const auto* remote = dynamic_cast<const RemoteError*>(&error)) return remote->code();
  if (dynamic_cast<const configs::SettingsError*>(&error) != nullptr) return kUsage;
  if (dynamic_cast<const data::DataError*>(&error) != nullptr) return kData;
  if (dynamic_cast<const RunError*>(&error) != nullptr) return kData;
  if (dynamic_cast<const models::ModelError*>(&error) != nullptr) return kUsage;
  if (dynamic_cast<const comm::PeerLostError*>(&error) != nullptr) return kPeerLost;
  if (dynamic_cast<const comm::CommError*>(&error) != nullptr) return kComm;
  return kInternal;
}

void run_together(comm::Communicator& comm, const std::function<void()>& step) {
  std::exception_ptr own;
  std::string report;
  try {
    step();
  } catch (const comm::CommError&) {
    throw;  // the group itself is broken: there is nobody to agree with
  } catch (const std::exception& error) {
    own = std::current_exception();
    report = fmt::format("{} {}", exit_code_of(error), error.what());
  }
  const auto reports = comm.all_gather_bytes(report);
  if (own) std::rethrow_exception(own);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].empty()) continue;
    const auto space = reports[rank].find(' ');
    throw RemoteError(fmt::format("rank {}: {}", rank, reports[rank].substr(space + 1)),
                      std::stoi(reports[rank].substr(0, space)));
  }
}

}  // namespace foretime::coordinator
