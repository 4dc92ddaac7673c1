#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>
#include <unistd.h>

#include "base/open_mpi.h"
#include "base/process.h"
#include "base/read_input.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command_line/model_commands.h"
#include "cli/jobs/queue_access.h"
#include "cli/launch_view.h"
#include "comm/backends/factory.h"
#include "comm/mpi/launched.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/torch_stream.h"
#include "jobs/error.h"
#include "jobs/redis/redis_health.h"

namespace foretime::cli {
namespace {

constexpr std::chrono::seconds kPatience{60};  // wait for missing ranks

void print_folded(const std::string& text) { fmt::print("{}", folded(text, output_width())); }
void line(const std::string& topic, const std::string& found) {
  print_folded(fmt::format("{:<10} {}\n", topic, found));
}
void advice(const std::string& text) { print_folded(fmt::format("{:<10}   -> {}\n", "", text)); }

/// Returns the shortened output of redis-server --version; "of unknown version" for any other output.
std::string version_of(const std::string& program) {
  const auto command = shell_word(program) + " --version";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> said(::popen(command.c_str(), "r"), &::pclose);
  std::array<char, 200> text{};
  if (!said || std::fgets(text.data(), text.size(), said.get()) == nullptr) return "of unknown version";
  const std::string_view answer(text.data());  // Redis server v=7.0.15 sha=…
  const auto at = answer.find("v=");
  return at == std::string_view::npos ? "of unknown version"
                                      : "version " + std::string(answer.substr(at + 2, answer.find(' ', at) - at - 2));
}

/// GFLOP/s of a product of two square float matrices, the best of three.
double measure_product(int64_t size) {
  const auto a = torch::rand({size, size}), b = torch::rand({size, size});
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double start = steady_seconds();
    const auto c = torch::mm(a, b);
    best = std::max(best, 2.0 * (size * size * size) / (steady_seconds() - start) * 1e-9);
  }
  return best;
}

/// Holds the report of `foretime doctor` about the queue's Redis.
struct RedisFinding {
  std::string found;
  std::vector<std::string> advice;
  int exit_code = kSuccess;
};

std::string text_or(const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; }

RedisFinding describe_redis(jobs::RedisClient& client) {
  const auto health = jobs::examine(client);
  RedisFinding finding{
      fmt::format("{}: Redis {} (at least {}.0 is needed; {}), appendonly {}, appendfsync {}, maxmemory-policy {}",
                  client.url().redacted(), text_or(health.version, "of unknown version"), jobs::kLeastRedis,
                  text_or(health.role, "role unknown"), text_or(health.appendonly, "unknown"),
                  text_or(health.appendfsync, "unknown"), text_or(health.maxmemory_policy, "unknown")),
      health.warnings};
  if (!health.usable) finding.exit_code = kComm;
  if (health.disk_failed) finding.exit_code = kStorage;
  if (health.warnings.empty()) finding.advice.emplace_back("nothing that was submitted is lost when it is killed");
  return finding;
}

/// Looks at the Redis that the options name, or at the embedded one where it runs. Starts nothing; whatever fails is a
/// finding, with the exit code that a command of the queue would have.
RedisFinding look_at_redis(const QueueOptions& options) {
  const auto folder = std::filesystem::path(options.runs) / ".redis";
  bool found = false;
  std::string shortage;
  try {
    auto url = jobs::RedisUrl::from_environment(options.redis, found);
    if (!found) {
      std::error_code unknown;
      if (!std::filesystem::exists(folder, unknown))
        return {fmt::format("no Redis is named, and there is none in {}", folder.string()),
                {"foretime submit and foretime agent start one there; for several machines set FORETIME_REDIS"}};
      const jobs::EmbeddedFolder embedded(options.runs);
      shortage = embedded.shortage();
      if (!shortage.empty())
        return {folder.string() + ": jobs can be read, and nothing can be changed", {shortage}, kStorage};
      if (!std::filesystem::exists(folder / "redis.sock", unknown))
        return {fmt::format("the Redis of {} does not run now", folder.string()),
                {"foretime submit and foretime agent start it when they need it"}};
      url.socket = embedded.socket();
      jobs::RedisClient client(url);
      return describe_redis(client);
    }
    jobs::RedisClient client(url);
    return describe_redis(client);
  } catch (const jobs::JobsError& error) {
    if (found || error.exit_code() == kStorage) return {"does not work", {error.what()}, error.exit_code()};
    return {fmt::format("the Redis of {} does not run now", folder.string()),
            {"foretime submit and foretime agent start it when they need it", error.what()}};
  }
}

/// Returns the resources of all ranks, by rank, or only of this task if MPI does not join the tasks of a launch; empty
/// on ranks other than 0. Finalizes MPI.
std::vector<TaskView> look_at_tasks(const SlurmView& slurm, bool joined) {
  auto own = view_of_this_task();
  own.gpus = comm::gpu_addresses();
  if (own.gpus.empty() && torch::cuda::is_available())
    for (size_t i = 0; i < torch::cuda::device_count(); ++i)
      own.gpus.push_back(fmt::format("{} of rank {}", i, std::max(0, comm::launched_rank())));  // not to be compared
  own.rank = slurm.rank;
  if (!joined) return {own};
  const auto ranks = comm::make_communicator({configs::Backend::mpi, kPatience});
  own.rank = ranks->rank();
  const auto texts = ranks->all_gather_bytes(to_json(own));
  ranks->finish();
  std::vector<TaskView> tasks;
  if (own.rank == 0)
    for (const auto& text : texts) tasks.push_back(task_view_from_json(text));
  return tasks;
}

/// Prints how this process was started, as one of the tasks of Slurm or of mpirun. `done`: it was one of several, and
/// another says the rest. Returns the exit code that a training would have.
int look_at_launch(bool& done) {
  const auto slurm = view_of_slurm([](const char* name) -> const char* { return std::getenv(name); });
  const auto no_ranks = comm::missing_ranks_reason();
  const bool joined = comm::launched_by_mpi() && no_ranks.empty();
  const bool first = comm::launched_rank() <= 0 || !comm::launched_by_mpi();
  done = !first;
  if (first && !slurm.job.empty()) line("Slurm", describe(slurm));
  std::fflush(stdout);  // MPI_Init may end the process
  const auto tasks = look_at_tasks(slurm, joined);
  for (const auto& task : tasks) line(fmt::format("rank {}", task.rank), describe(task));
  int exit_code = kSuccess;
  if (!tasks.empty()) {
    for (const auto& finding : examine_launch(slurm, tasks, first ? no_ranks : "")) {
      advice(finding.text);
      if (finding.fatal) exit_code = kComm;
    }
  }
  std::fflush(stdout);
  return exit_code;
}

}  // namespace

void examine_machine(const QueueOptions& queue) {
  bool done = false;
  const int launch = look_at_launch(done);
  if (done) return;
  const int cores = std::thread::hardware_concurrency();
  line("LibTorch", fmt::format("{}, {} threads by default", TORCH_VERSION, torch::get_num_threads()));
  torch::set_num_threads(cores);
  const double speed = measure_product(1024);
  const std::string blas = mapped_blas(kernel_text("/proc/self/maps"));
  line("BLAS",
       fmt::format("{}, {:.0f} GFLOP/s on {} threads", blas.empty() ? "built into LibTorch" : blas, speed, cores));
  if (blas.find("openblas") == std::string::npos && blas.find("mkl") == std::string::npos && !blas.empty())
    advice("this is the reference BLAS, many times slower: install libopenblas0-openmp");
  if (blas.find("openblas-pthread") != std::string::npos)
    advice(
        "its threads and LibTorch's compete for the cores: install libopenblas0-openmp, remove libopenblas0-pthread");
  if (rlimit limit{}; getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    line("memory",
         fmt::format("at most {:.1f} GiB of address space for a process (ulimit -v)", limit.rlim_cur / 0x1p30));
    advice("libraries and threads reserve much more than they use: ulimit -v unlimited, and limit memory by a cgroup");
  }
  line("threads", fmt::format("{} cores; ranks x trainer.threads should not exceed them", cores));
  const char* openmp = std::getenv("OMP_NUM_THREADS");
  if (openmp != nullptr) line("", fmt::format("OMP_NUM_THREADS={}", openmp));
  const bool built_with_cuda = comm::torch_built_with_cuda();
  line("GPU", torch::cuda::is_available() ? fmt::format("{} by LibTorch", torch::cuda::device_count())
                                          : fmt::format("none that LibTorch can use, which was built with{} CUDA",
                                                        built_with_cuda ? "" : "out"));
  if (!torch::cuda::is_available() && built_with_cuda)
    advice("training runs on the CPU; for GPUs see what nvidia-smi lists, and CUDA_VISIBLE_DEVICES");
  if (!torch::cuda::is_available() && !built_with_cuda)
    advice("training runs on the CPU; for GPUs build against a CUDA LibTorch 2.x (docs/how-to/install.md)");
  for (const auto& backend : comm::describe_backends()) line("comm", backend);
  const auto mpirun = find_program("mpirun");
  line("mpirun", mpirun.empty() ? "not found" : mpirun);
  if (mpirun.empty()) advice("install openmpi-bin to train on several ranks");
  const bool refuses_root = std::ranges::any_of(kMpiRootVariables, [](const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr || std::string_view(value) != "1";
  });
  if (!mpirun.empty() && geteuid() == 0 && refuses_root)
    advice(fmt::format("Open MPI's mpirun does not start as root: export {}=1", fmt::join(kMpiRootVariables, "=1 ")));
  const auto redis = find_program("redis-server");
  line("Redis", redis.empty()
                    ? "redis-server not found"
                    : fmt::format("{}, {}; at least {}.0 is needed", redis, version_of(redis), jobs::kLeastRedis));
  if (redis.empty()) advice("install redis-server for a job queue without a Redis of your own; training needs none");
  const auto finding = look_at_redis(queue);
  line("queue", finding.found);
  for (const auto& text : finding.advice) advice(text);
  std::fflush(stdout);
  if (launch != kSuccess) throw ReportedError(launch, "a training with this launch would be refused");
  if (finding.exit_code != kSuccess) throw ReportedError(finding.exit_code, "queue: " + finding.found);
}

}  // namespace foretime::cli
