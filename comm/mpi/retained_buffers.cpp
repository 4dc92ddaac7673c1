#include "comm/mpi/retained_buffers.h"

#include <atomic>

namespace foretime::comm {
namespace {

std::atomic<bool> kept_some = false;

}  // namespace

RetainedBuffers::Contents::~Contents() {
  for (auto& type : types) MPI_Type_free(&type);
}

RetainedBuffers::~RetainedBuffers() {
  if (idle()) return;
  kept_some = true;
  keep_until_exit(std::move(contents_));
}

MPI_Request* RetainedBuffers::new_request() { return &contents_->requests.emplace_back(MPI_REQUEST_NULL); }

int RetainedBuffers::test(bool& done) {
  done = idle();
  if (done) return MPI_SUCCESS;
  auto& requests = contents_->requests;
  int all = 0;
  const int code = MPI_Testall(requests.size(), requests.data(), &all, MPI_STATUSES_IGNORE);
  done = code == MPI_SUCCESS && all != 0;
  if (done) contents_ = std::make_unique<Contents>();
  return code;
}

bool RetainedBuffers::any_kept() { return kept_some; }

}  // namespace foretime::comm
