// All-reduce bandwidth of the Communicator beside MPI_Allreduce in the same run, and how much of the reduction of
// gradients stays exposed beyond backward. Run under mpirun; rank 0 prints the tables; with --bandwidth the first one
// alone, for the three sizes of all_reduce_c10d.py; with --sums SECONDS the ways to sum gradients, as JSON for
// links.py. bench/README.md says what is claimed.
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <malloc.h>
#include <mpi.h>
#include <torch/nn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "bench/bench.h"
#include "comm/algorithms/gradient_reducer.h"
#include "comm/algorithms/tree_sum.h"
#include "comm/backends/factory.h"

namespace foretime {
namespace {

using comm::Communicator;
constexpr int kRounds = 5;  // the best one counts: other processes only ever add time

/// Seconds of one call, of the slowest rank, in the best round.
double time_call(Communicator& comm, int calls, const std::function<void()>& call) {
  call();
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    comm.barrier();
    const double own = bench::seconds_of(bench::wall_seconds, [&] {
      for (int i = 0; i < calls; ++i) call();
    });
    const auto seconds = torch::full({1}, own / calls, torch::kFloat64).to(comm.device());
    comm.all_reduce(seconds, comm::ReduceOp::max)->wait();
    best = std::min(best, seconds.item<double>());
  }
  return best;
}

void print_bandwidth(Communicator& comm, const std::vector<int64_t>& sizes) {
  const bool root = comm.rank() == 0;
  int mpi_ready = 0;
  MPI_Initialized(&mpi_ready);
  if (root) {
    fmt::print(
        "all-reduce (sum, float32), {} ranks, backend {}; GB/s of bus bandwidth, 2 (n - 1) / n x bytes / seconds\n",
        comm.size(), comm.name());
    fmt::print("{:>10} {:>12} {:>10} {:>12} {:>10} {:>8}\n", "bytes", "foretime us", "GB/s", "MPI us", "GB/s", "ratio");
  }
  const double share = 2.0 * (comm.size() - 1) / comm.size();
  for (const int64_t bytes : sizes) {
    const int calls = static_cast<int>(std::clamp<int64_t>((8 << 20) / bytes, 1, 200));
    auto ours = torch::zeros({bytes / 4}, torch::device(comm.device()));
    const double own = time_call(comm, calls, [&] { comm.all_reduce(ours)->wait(); });
    if (root) fmt::print("{:>10} {:>12.1f} {:>10.3f}", bytes, own * 1e6, share * bytes / own / 1e9);
    if (mpi_ready) {
      auto raw = torch::zeros({bytes / 4});
      const double mpi = time_call(comm, calls, [&] {
        MPI_Allreduce(MPI_IN_PLACE, raw.data_ptr<float>(), static_cast<int>(raw.numel()), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      });
      if (root) fmt::print(" {:>12.1f} {:>10.3f} {:>8.2f}", mpi * 1e6, share * bytes / mpi / 1e9, mpi / own);
    }
    if (root) fmt::print("\n");
  }
}

/// Seconds of one call, of the slowest rank, in the best of the rounds that fit into `limit` seconds, at least two.
double best_call(Communicator& comm, double limit, const std::function<void()>& call) {
  const double start = bench::wall_seconds();
  double best = 1e30;
  for (int round = 0;; ++round) {
    comm.barrier();
    auto seconds =
        torch::tensor({bench::seconds_of(bench::wall_seconds, call), bench::wall_seconds() - start}, torch::kFloat64);
    comm.all_reduce(seconds, comm::ReduceOp::max)->wait();
    if (round > 0) best = std::min(best, seconds[0].item<double>());  // the first one opens connections
    if (round >= 2 && seconds[1].item<double>() > limit) return best;
  }
}

/// Seconds that a message of 2 KiB keeps a rank busy: two ranks send each other many at once.
double message_seconds(Communicator& comm, double limit) {
  constexpr int kMessages = 256, kBytes = 2048;
  std::vector<char> out(kMessages * kBytes), in(kMessages * kBytes);
  const int peer = comm.rank() == 0 ? comm.size() - 1 : 0;
  const bool takes_part = comm.rank() == 0 || comm.rank() == comm.size() - 1;
  return best_call(comm, limit,
                   [&] {
                     std::vector<MPI_Request> requests(takes_part ? 2 * kMessages : 0);
                     for (int i = 0; takes_part && i < kMessages; ++i) {
                       MPI_Irecv(&in[i * kBytes], kBytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
                       MPI_Isend(&out[i * kBytes], kBytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[kMessages + i]);
                     }
                     MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
                   }) /
         kMessages;
}

void print_sums(Communicator& comm, double limit) {
  using comm::Route, comm::Wire;
  struct Way {
    const char* name;
    Wire wire;
    Route route;
  };
  std::vector<Way> ways = {{"direct", Wire::float32, Route::direct}, {"direct_bf16", Wire::bfloat16, Route::direct}};
  if (comm.host_block() > 1 && comm.host_block() < comm.size()) {
    ways.push_back({"hosts", Wire::float32, Route::by_hosts});
    ways.push_back({"hosts_bf16", Wire::bfloat16, Route::by_hosts});
  }
  std::string rows;
  for (const int64_t bytes : {4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}) {
    auto tensor = torch::zeros({bytes / 4});
    const auto add = [&](const char* name, double seconds) { rows += fmt::format(", \"{}\": {:.7f}", name, seconds); };
    rows += fmt::format("{}{{\"bytes\": {}", rows.empty() ? "" : ", ", bytes);
    add("mpi", best_call(comm, limit, [&] { comm.all_reduce(tensor)->wait(); }));
    for (const auto& way : ways)
      add(way.name, best_call(comm, limit, [&] { sum_in_tree(comm, tensor, way.wire, way.route)->wait(); }));
    rows += "}";
  }
  const double message = message_seconds(comm, limit);
  if (comm.rank() == 0)
    fmt::print("{{\"ranks\": {}, \"host_block\": {}, \"message\": {:.8f}, \"sums\": [{}]}}\n", comm.size(),
               comm.host_block(), message, rows);
}

/// Medians over steps; a step counts as `op` over ranks.
double median_over_ranks(Communicator& comm, const std::vector<double>& steps, comm::ReduceOp op) {
  auto values = torch::tensor(steps, torch::kDouble).to(comm.device());
  comm.all_reduce(values, op)->wait();
  return values.median().item<double>();
}

/// A stack of dense layers, whose gradients appear one after the other during backward. Steps that reduce and steps
/// that only compute take turns, so that both see the same machine.
void print_exposure(Communicator& comm, int64_t bucket_bytes, comm::Wire wire) {
  constexpr int64_t kWidth = 512, kRows = 512;
  constexpr int kLayers = 8, kSteps = 24;
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (int i = 0; i < kLayers; ++i) {
    model->push_back(torch::nn::Linear(kWidth, kWidth));
    model->push_back(torch::nn::ReLU());
  }
  model->to(comm.device());
  std::vector<comm::GradientReducer::Parameter> parameters;
  for (const auto& item : model->named_parameters()) parameters.push_back({item.key(), item.value()});
  comm::GradientReducer reducer(comm, parameters, bucket_bytes, wire);
  const auto input = torch::randn({kRows, kWidth}, torch::device(comm.device()));
  std::vector<double> exposed, steps, computing;
  for (int step = 0; step < 2 * kSteps; ++step) {
    const bool reduces = step % 2 == 0;
    model->zero_grad();
    comm.barrier();
    (reduces ? steps : computing).push_back(bench::seconds_of(bench::wall_seconds, [&] {
      const auto loss = model->forward(input).square().mean();
      if (reduces) reducer.prepare();
      loss.backward();
      if (reduces) reducer.finish();
      loss.item<float>();  // a GPU has done it
    }));
    if (reduces) exposed.push_back(reducer.timing().exposed_seconds);
  }
  const double step = median_over_ranks(comm, steps, comm::ReduceOp::max),
               compute = median_over_ranks(comm, computing, comm::ReduceOp::max),
               alone = median_over_ranks(comm, exposed, comm::ReduceOp::min);
  if (comm.rank() != 0) return;
  fmt::print("{:>10} {:>9} {:>9.2f} {:>11.2f} {:>11.2f} {:>9.1f}% {:>9.1f}% {:>6}\n", bucket_bytes,
             wire == comm::Wire::bfloat16 ? "bfloat16" : "float32", step * 1e3, compute * 1e3, alone * 1e3,
             100 * alone / step, 100 * (step - compute) / step, reducer.timing().started_early);
}

void print_exposures(Communicator& comm) {
  if (comm.rank() == 0) {
    fmt::print("\ngradient reduction, 8 dense layers of 512 x 512, 512 rows; medians over steps\n");
    fmt::print("{:>10} {:>9} {:>9} {:>11} {:>11} {:>10} {:>10} {:>6}\n", "bucket", "wire", "step ms", "compute ms",
               "exposed ms", "exposed", "added", "early");
  }
  using comm::Wire;
  for (const auto wire : {Wire::float32, Wire::bfloat16}) {
    for (const int64_t bucket : {int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 22, int64_t{1} << 26})
      print_exposure(comm, bucket, wire);
  }
}

void run(bool bandwidth_only, double sums) {
  const auto comm = comm::make_communicator({});
  torch::set_num_threads(1);
  if (sums > 0) {
    print_sums(*comm, sums);
    comm->finish();
    return;
  }
  std::vector<int64_t> sizes = {1 << 10, 1 << 20, 64 << 20};
  if (!bandwidth_only) {
    sizes.clear();
    for (int64_t bytes = 1 << 10; bytes <= 64 << 20; bytes *= 4) sizes.push_back(bytes);
  }
  print_bandwidth(*comm, sizes);
  if (!bandwidth_only) print_exposures(*comm);
  comm->finish();
}

}  // namespace
}  // namespace foretime

int main(int count, char** arguments) {
  // As the program does: tensors are not given back to the kernel at each free.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const bool bandwidth_only = count > 1 && std::string(arguments[1]) == "--bandwidth";
  const double sums = count > 2 && std::string(arguments[1]) == "--sums" ? std::atof(arguments[2]) : 0;
  return foretime::bench::run(count, arguments, "[--bandwidth | --sums SECONDS]", 0, 2,
                              [&] { foretime::run(bandwidth_only, sums); });
}
