#include "comm/agree.h"

#include <exception>

#include <fmt/format.h>

namespace foretime::comm {

void run_together(Communicator& comm, const std::function<void()>& step) {
  std::exception_ptr own;
  std::string report;
  try {
    step();
  } catch (const CommError&) {
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
    throw RemoteError(std::stoi(reports[rank].substr(0, space)),
                      fmt::format("rank {}: {}", rank, reports[rank].substr(space + 1)));
  }
}

}  // namespace foretime::comm
