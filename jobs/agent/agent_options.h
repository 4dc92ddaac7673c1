#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jobs/agent/allowed_roots.h"
#include "jobs/agent/host_watch.h"
#include "jobs/artifacts/artifact_store.h"
#include "jobs/queue/job.h"
#include "jobs/queue/queue.h"

namespace foretime::jobs {

/// Returns the words of `text`, separated by blanks; '…' and "…" group, also within a word. Throws JobsError for an
/// open quote.
std::vector<std::string> split_words(const std::string& text);

/// Turns a job into a command line. The template belongs to the agent's operator, never to a job. It consists of words
/// separated by blanks (quotes group; there is no shell). {ranks} {cpus} {gpus} {threads} are filled in, and {command}
/// is replaced by the program and its arguments, each a separate word. Words with {gpus} are dropped for a job without
/// GPUs. If jobs run on other hosts, {hosts} is replaced by the job's hosts with their numbers of ranks: h1:4,h2:2.
class Launcher {
 public:
  /// Parses "auto" (direct for one rank, mpirun for more), "direct", "mpirun", "srun", or a template with {command}.
  /// `in_step` says that the agent is itself a task of srun. With `over_hosts`, jobs run on other hosts, a template
  /// must contain {hosts}, and auto means mpirun. Throws JobsError if {command} is missing or not a separate word, and
  /// for an unknown {name} or an open quote.
  explicit Launcher(const std::string& text, bool in_step = std::getenv("SLURM_STEP_ID") != nullptr,
                    bool over_hosts = false);
  std::vector<std::string> arguments(const Resources& resources, const std::vector<std::string>& command,
                                     const std::string& hosts = "") const;
  const std::string& text() const { return text_; }
  /// Returns whether ranks may run on other hosts.
  bool may_leave_host() const { return text_ != "auto" && text_ != "direct"; }
  /// Returns the variables of `environment` (NAME=VALUE, ending in null) that a job must not see: those of the Slurm
  /// step or MPI launch that the agent itself belongs to, which would make the job's ranks join it, and options of
  /// srun. If srun starts the ranks, the variables of the allocation are kept.
  std::vector<std::string> variables_of_outer_launch(char* const* environment) const;

  /// Runs ranks with mpirun. Open MPI's daemons detect a silent host by TCP keepalive, by default after eight minutes;
  /// these options shorten that. Open MPI waits about twice the SIGKILL time-out whenever it ends a rank, even a dead
  /// one, so the time-out is short; checkpoints are requested over the socket long before SIGTERM.
  static constexpr const char* kMpirun =
      "mpirun -n {ranks} --bind-to none --oversubscribe -x FORETIME_PROGRESS -x FORETIME_PROGRESS_TCP -x "
      "FORETIME_PROGRESS_TOKEN -x OMP_NUM_THREADS --mca odls_base_sigkill_timeout 5 --mca oob_tcp_keepalive_time 5 "
      "--mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 {command}";
  /// Runs ranks with srun for an agent that is not itself a step. Jobs get separate CPUs and share the allocation's
  /// memory: otherwise the first step would take all memory, and the next one would wait. srun returns the highest exit
  /// code of its ranks; --wait gives slower ranks a minute, since killing them would hide their codes.
  static constexpr const char* kSrun =
      "srun --mpi=pmix --ntasks={ranks} --cpus-per-task={cpus} --gpus-per-task={gpus} --exact --mem=0 "
      "--kill-on-bad-exit=0 --wait=60 {command}";
  /// Runs ranks with srun for an agent that is itself a step and holds the resources that the job's step requests.
  static constexpr const char* kSrunInStep =
      "srun --mpi=pmix --ntasks={ranks} --cpus-per-task={cpus} --gpus-per-task={gpus} --exact --overlap "
      "--kill-on-bad-exit=0 --wait=60 {command}";

 private:
  std::string text_;
  std::vector<std::string> words_;
};

/// Holds the settings of an agent.
struct AgentOptions {
  std::string name;               // empty: host:pid:random
  std::string version;            // shown by `foretime queue` and the board
  int64_t cpus = 0;               // slots; 0: all cores
  std::vector<std::string> gpus;  // ids as CUDA_VISIBLE_DEVICES takes them
  std::vector<AgentHost> hosts;   // hosts of the jobs, whose CPUs `cpus` sums; empty: only this host
  HostProbe host_probe;           // checks `hosts`; unused without them
  int64_t max_jobs = 0;           // jobs at the same time; 0: as many as fit
  AllowedRoots roots;
  Launcher launcher{"auto"};
  std::string program;           // foretime executable that runs jobs; empty: /proc/self/exe
  std::filesystem::path compat;  // folder of the Python modules wandb, mlflow and optuna (compat_folder); empty: none
  Milliseconds lease_term{30000};
  double stall_seconds = 600;       // a job without progress for this long is killed and retried
  double stop_grace_seconds = 120;  // between a request to stop and SIGTERM
  double drain_seconds = 600;       // time that SIGTERM leaves to jobs for a checkpoint
  int64_t most_failures = 5;  // different jobs that fail soon, one after another, before claiming pauses; 0: no limit
  std::function<std::shared_ptr<ArtifactStores>()>
      artifacts;       // makes stores for a separate thread; empty: no artifact store
  std::string listen;  // address for channels of ranks on other hosts (jobs/progress/tcp.h); empty: none
  std::string store;   // store for artifacts (store_address); empty: none
  std::string queue;   // identity of the queue, written into each attempt's mark (attempt_folder.h)
  /// Removes old attempts and logs the result. Is called on a background thread, at most once an hour, and ends early
  /// when `stop` returns true. Owns its data, because hanging storage may keep it running for longer than the agent.
  /// Empty: nothing is removed.
  std::function<void(const std::function<bool()>& stop)> clean;
  bool until_empty = false;  // end when no job is left that this agent could ever run
};

class World;
/// Returns `options` with the defaults of this machine (name, CPUs) and canonical roots, and makes the run root. Throws
/// JobsError if a root cannot be used.
AgentOptions completed(AgentOptions options, World& world);

/// Holds the GPUs and CPUs that a job occupies on an agent.
struct JobSlots {
  std::vector<std::string> gpus{};
  std::vector<AgentHost> hosts{};  // CPUs that the job has there; an empty name is the agent's host
};

/// Counts the free CPUs and GPUs of an agent. A GPU belongs to one job at a time; no rank spans two hosts.
class Slots {
 public:
  /// Starts with all slots free. Without `hosts`, the CPUs belong to the agent's host. Throws JobsError if a GPU is
  /// listed twice.
  Slots(int64_t cpus, const std::vector<std::string>& gpus, const std::vector<AgentHost>& hosts = {});
  int64_t free_cpus() const;
  int64_t free_gpus() const { return free_gpus_.size(); }
  /// Returns the free CPUs of each host that answers; empty if the agent has no `hosts`.
  std::vector<int64_t> free_of_hosts() const;
  /// Marks `hosts` as silent and all other hosts of the agent as answering. Nothing is free on a silent host; before
  /// the first call all hosts are silent.
  void set_silent(std::set<std::string> hosts);
  /// Takes the slots of a job; empty if it does not fit. Ranks fill the hosts one after the other.
  std::optional<JobSlots> take(const Resources& resources);
  void give_back(const JobSlots& slots);

 private:
  bool answers(const AgentHost& host) const { return host.name.empty() || (asked_ && !silent_.contains(host.name)); }

  std::vector<AgentHost> free_hosts_;  // free CPUs; an empty name is the agent's host
  bool asked_ = false;
  std::set<std::string> silent_;
  std::vector<std::string> free_gpus_;  // sorted
};

/// Makes a queue with its own connection. The agent has one each for its loop, its heartbeat and wake-up messages.
using QueueFactory = std::function<std::shared_ptr<JobQueue>()>;
/// Decides the deferred parameters of a lease (jobs/sweep/proposer.h). Called before the job's first start.
using Proposer = std::function<Parameters(JobQueue& queue, const Lease& lease)>;

}  // namespace foretime::jobs
