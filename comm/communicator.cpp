#include "comm/communicator.h"

#include <exception>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/numbers.h"

namespace foretime::comm {

bool borrowed(const torch::Tensor& tensor) {
  return tensor.numel() > 0 && tensor.storage().data_ptr().get_context() == nullptr;
}

void require_reducible(int rank, const char* call, const torch::Tensor& tensor) {
  FORETIME_CHECK(tensor.defined(), "rank {}: {}", rank, call);
  FORETIME_CHECK(tensor.is_contiguous(), "rank {}: {}", rank, call);
  switch (tensor.scalar_type()) {
    case torch::kHalf:
    case torch::kBFloat16:
    case torch::kFloat:
    case torch::kDouble:
    case torch::kLong:
    case torch::kInt:
    case torch::kByte: return;
    default:
      FORETIME_CHECK(false, "rank {}: {}: type {} cannot be sent", rank, call, c10::toString(tensor.scalar_type()));
  }
}

void require_root(int rank, int size, const char* call, int root) {
  FORETIME_CHECK(root >= 0 && root < size, "rank {}: {}: root {} of {} ranks", rank, call, root, size);
}

void run_together(Communicator& comm, const std::function<void()>& step) {
  std::exception_ptr own;
  std::string report;
  try {
    step();
  } catch (const CommError&) {
    throw;  // the group itself is broken: there is nobody to agree with
  } catch (const std::exception& error) {
    own = std::current_exception();
    report = fmt::format("{} {}", exit_code_of(error), text_of_error(error));
  }
  const auto reports = comm.all_gather_bytes(report);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].empty()) continue;
    if (std::cmp_equal(rank, comm.rank())) std::rethrow_exception(own);
    std::string_view text = reports[rank];
    const auto exit_code = take_number<int>(text);
    FORETIME_CHECK(exit_code && text.starts_with(' '), "rank {}: report '{}'", rank, reports[rank]);
    throw RemoteError(*exit_code, fmt::format("rank {}: {}", rank, text.substr(1)));
  }
}

}  // namespace foretime::comm
