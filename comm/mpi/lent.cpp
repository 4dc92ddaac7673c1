#include "comm/mpi/lent.h"

#include <atomic>

namespace foretime::comm {
namespace {

std::atomic<bool> kept_some = false;

}  // namespace

Lent::Held::~Held() {
  for (auto& type : types) MPI_Type_free(&type);
}

Lent::~Lent() {
  if (idle()) return;
  kept_some = true;
  keep_until_exit(std::move(held_));
}

MPI_Request* Lent::new_request() { return &held_->requests.emplace_back(MPI_REQUEST_NULL); }

int Lent::test(bool& done) {
  done = idle();
  if (done) return MPI_SUCCESS;
  auto& requests = held_->requests;
  int all = 0;
  const int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
  done = code == MPI_SUCCESS && all != 0;
  if (done) held_ = std::make_unique<Held>();
  return code;
}

bool Lent::any_kept() { return kept_some; }

}  // namespace foretime::comm
