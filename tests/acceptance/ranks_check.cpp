#include <numeric>

#include "base/logger/logger.h"
#include "comm/algorithms/gradient_reducer.h"
#include "comm/backends/factory.h"
#include "comm/mpi/launched.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/run_directory.h"
#include "models/safetensors.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/compare.h"
#include "tests/acceptance/workloads.h"
#include "worker/step/trainer.h"

namespace foretime::acceptance {
namespace {

constexpr std::chrono::seconds kPatience{120};

/// The weights after ten steps on the ranks of `comm`, by rank 0.
torch::Tensor ten_steps(configs::Settings settings, comm::Communicator& comm, const Place& place,
                        const std::filesystem::path& folder) {
  return place.run([&] {
    settings.trainer.device = place.setting();
    settings.trainer.steps = 10;
    settings.checkpoint.every_steps = 10;
    settings.run.directory = folder.string();
    const auto log = make_logger("", spdlog::level::err);
    worker::Trainer trainer(settings, comm, *log);
    trainer.set_up();
    trainer.run();
    if (comm.rank() != 0) return torch::Tensor();
    const coordinator::CheckpointStore store(folder / "checkpoints");
    std::vector<torch::Tensor> all;
    const auto file = store.read(store.steps().back()).files.at("model.safetensors");
    for (const auto& [name, tensor] : models::parse_safetensors(file, "model").tensors) all.push_back(tensor);
    return joined(all);
  });
}

/// A group of one that says it has two: nothing is left out for it. Its rank sends to itself, so sums are of one.
class AsTwo final : public comm::Communicator {
 public:
  explicit AsTwo(comm::Communicator& one) : one_(one) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 2; }
  std::string name() const override { return one_.name(); }
  torch::Device device() const override { return one_.device(); }
  std::unique_ptr<comm::Work> all_reduce(torch::Tensor tensor, comm::ReduceOp op) override {
    return one_.all_reduce(std::move(tensor), op);
  }
  std::unique_ptr<comm::Work> run(comm::Stages stages) override { return one_.run(std::move(stages)); }
  void broadcast(torch::Tensor tensor, int root) override { one_.broadcast(std::move(tensor), root); }
  void barrier() override { one_.barrier(); }
  void settle() override { one_.settle(); }
  std::vector<std::string> all_gather_bytes(const std::string& bytes) override { return one_.all_gather_bytes(bytes); }
  std::string broadcast_bytes(const std::string& bytes, int root) override { return one_.broadcast_bytes(bytes, root); }
  void finish() override { one_.finish(); }
  void abort(const std::string& reason) noexcept override { one_.abort(reason); }

 private:
  comm::Communicator& one_;
};

/// Gradients that went through buckets against those that did not.
void reduce_in_buckets(comm::Communicator& comm, Rows& rows) {
  const auto options = torch::dtype(torch::kFloat).device(comm.device());
  std::vector<comm::GradientReducer::Parameter> parameters;
  for (int64_t i = 1; i <= 6; ++i)
    parameters.push_back({"p" + std::to_string(i), torch::rand({100 * i, 7}, options).requires_grad_(true)});
  const auto loss = [&] {
    auto sum = torch::zeros({}, options);
    for (const auto& parameter : parameters) sum = sum + (parameter.tensor * parameter.tensor).sum();
    return sum;
  };
  AsTwo two(comm);
  comm::GradientReducer reducer(two, parameters, 4096);
  for (int step = 0; step < 3; ++step) {
    for (auto& parameter : parameters) parameter.tensor.mutable_grad() = torch::Tensor();
    reducer.prepare();
    loss().backward();
    reducer.flush();
    reducer.finish();
  }
  two.settle();
  double worst = 0;
  for (const auto& parameter : parameters)
    worst = std::max(worst, distance(parameter.tensor.grad(), 2 * parameter.tensor));
  rows.at_most(Kind::must, "NCCL, one rank: gradients through buckets", worst, 1e-6, "relative");
}

/// Pieces that the rank sends to itself, a computation on NCCL's stream between them.
void run_stages(comm::Communicator& comm, torch::ScalarType type, Rows& rows) {
  const auto options = torch::dtype(type).device(comm.device());
  const auto send = torch::arange(4096, options.dtype(torch::kFloat)).remainder(61).to(type).view({1, 4096});
  const auto received = torch::zeros_like(send);
  comm::Stages stages{.call = "acceptance",
                      .list = {comm::AllToAll{send, received}, comm::Compute([received] { received.add_(received); }),
                               comm::AllGather{received}},
                      .tensors = {send, received}};
  comm.run(std::move(stages))->wait();
  rows.is_true(Kind::must, std::string("NCCL, one rank: stages of ") + c10::toString(type),
               torch::equal(received, send + send));
}

}  // namespace

void check_ranks(const Options& options, Rows& rows) {
  auto comm = comm::make_communicator({configs::Backend::mpi, kPatience, options.gpu});
  const auto device = options.device();
  torch::set_num_threads(1);
  comm::run_together(*comm, [&] {
    if (comm->rank() == 0) with_small_layouts(options);  // writes them
  });
  const auto settings = layout_workload(with_small_layouts(options)).settings;
  torch::Tensor alone;
  comm::run_together(*comm, [&] {
    if (comm->rank() != 0) return;
    const auto single = comm::make_single_communicator();
    alone = ten_steps(settings, *single, device, options.work / "one_rank");
  });
  const auto together = ten_steps(settings, *comm, device, options.work / "ranks");
  if (comm->rank() == 0) {
    rows.figure("MPI: ranks on " + device.name, comm->size(), "");
    rows.at_most(Kind::must, "MPI: weights after ten steps, from one rank's", distance(together, alone), 1e-4,
                 "relative");
  }
  comm->finish();
}

void check_nccl_refusal(const Options& options, Rows& rows) {
  const char* what = "NCCL refuses two ranks on one GPU";
  if (options.gpu && torch::cuda::device_count() > 1) {
    if (comm::launched_rank() <= 0) rows.skipped(Kind::figure, what, "there are several GPUs here");
    return;
  }
  const char* wanted = options.gpu ? "would share GPU" : "GPU";
  try {
    const auto comm = comm::make_communicator({configs::Backend::nccl, kPatience});
    if (comm->rank() == 0) rows.is_true(Kind::must, what, false, "it made a communicator");
    comm->finish();
  } catch (const comm::CommError& error) {
    const std::string message = error.what();
    rows.is_true(Kind::must, options.gpu ? what : "NCCL without a GPU is refused",
                 message.find(wanted) != std::string::npos, message);
    throw;
  }
}

void check_nccl_alone(const Options& options, Rows& rows) {
  if (!options.gpu) return rows.skipped(Kind::must, "NCCL, one rank", "no GPU");
  const auto comm = comm::make_communicator({configs::Backend::nccl, kPatience});
  rows.fact("NCCL, one rank", comm->name() + " on " + comm->device().str());
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kLong}) {
    auto tensor = torch::arange(1000, torch::dtype(torch::kFloat).device(comm->device())).to(type);
    const auto before = tensor.clone();
    comm->all_reduce(tensor)->wait();
    comm->broadcast(tensor, 0);
    rows.is_true(Kind::must, std::string("NCCL, one rank: all_reduce of ") + c10::toString(type),
                 torch::equal(tensor, before));
  }
  run_stages(*comm, torch::kFloat, rows);
  run_stages(*comm, torch::kBFloat16, rows);
  reduce_in_buckets(*comm, rows);
  comm->finish();
}

}  // namespace foretime::acceptance
