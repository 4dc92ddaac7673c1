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

/// Returns the words of `text` between white space; '…' and "…" group, also in a word. Throws JobsError for an open
/// quote.
std::vector<std::string> split_words(const std::string& text);

/// Turns a job into a command line by a template of the agent's operator, a text for split_words(). {ranks} is replaced
/// by the number of ranks, {cpus} and {threads} by the CPUs and {gpus} by the GPUs of each rank, and {command} by the
/// program and its arguments as separate words. Words with {gpus} are dropped for a job without GPUs. If jobs run on
/// other hosts, {hosts} is replaced by the job's hosts with their numbers of ranks: h1:4,h2:2.
class Launcher {
 public:
  /// Parses "auto" (direct for one rank, mpirun for more), "direct", "mpirun", "srun", or a template with {command}.
  /// `in_step` is true if the agent is itself a task of srun. With `over_hosts`, jobs run on other hosts, a template
  /// must contain {hosts}, and auto means mpirun. Throws JobsError unless the template has exactly one {command} as a
  /// separate word after the program, and for an unknown {name} or an open quote.
  explicit Launcher(const std::string& text, bool in_step = std::getenv("SLURM_STEP_ID") != nullptr,
                    bool over_hosts = false);
  /// Returns the command line that starts `command` on `resources`. `hosts` replaces {hosts}. Throws JobsError if the
  /// launcher is direct and the job has several ranks.
  std::vector<std::string> arguments(const Resources& resources, const std::vector<std::string>& command,
                                     const std::string& hosts = "") const;
  const std::string& text() const { return text_; }
  /// Returns whether ranks may run on other hosts: true unless the launcher is auto or direct.
  bool may_leave_host() const { return text_ != "auto" && text_ != "direct"; }
  /// Returns the variables of `environment` (NAME=VALUE, ending in null) that a job must not see: those of the Slurm
  /// step or MPI launch that the agent itself belongs to, which would make the job's ranks join it, and options of
  /// srun. If srun starts the ranks, the variables of the allocation are kept.
  std::vector<std::string> variables_of_outer_launch(char* const* environment) const;

  /// The template `mpirun`. Its options make Open MPI detect a silent host sooner, and wait less when a rank ends.
  static constexpr const char* kMpirun =
      "mpirun -n {ranks} --bind-to none --oversubscribe -x FORETIME_PROGRESS -x FORETIME_PROGRESS_TCP -x "
      "FORETIME_PROGRESS_TOKEN -x OMP_NUM_THREADS --mca odls_base_sigkill_timeout 5 --mca oob_tcp_keepalive_time 5 "
      "--mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 {command}";
  /// The template `srun` for an agent that is not itself a step. Jobs get separate CPUs and share the allocation's
  /// memory. srun returns the highest exit code of its ranks, which have a minute to end (--wait).
  static constexpr const char* kSrun =
      "srun --mpi=pmix --ntasks={ranks} --cpus-per-task={cpus} --gpus-per-task={gpus} --exact --mem=0 "
      "--kill-on-bad-exit=0 --wait=60 {command}";
  /// The template `srun` for an agent that is itself a step and holds the resources that the job's step requests.
  static constexpr const char* kSrunInStep =
      "srun --mpi=pmix --ntasks={ranks} --cpus-per-task={cpus} --gpus-per-task={gpus} --exact --overlap "
      "--kill-on-bad-exit=0 --wait=60 {command}";

 private:
  std::string text_;                // auto, direct, mpirun, srun or the template
  std::vector<std::string> words_;  // words of the template; empty for auto and direct
};

/// Holds the settings of an agent.
struct AgentOptions {
  std::string name;               // empty: host:pid:random
  std::string version;            // shown by `foretime queue` and the board
  int64_t cpus = 0;               // CPUs for jobs; 0: all cores that this process may use
  std::vector<std::string> gpus;  // ids as CUDA_VISIBLE_DEVICES takes them
  std::vector<AgentHost> hosts;   // hosts of the jobs, whose CPUs `cpus` sums; empty: only this host
  HostProbe host_probe;           // finds those of `hosts` that do not answer; unused if `hosts` is empty
  int64_t max_jobs = 0;           // most jobs at the same time; 0: as many as fit
  AllowedRoots roots;
  Launcher launcher{"auto"};
  std::string program;           // foretime executable that runs jobs; empty: /proc/self/exe
  std::filesystem::path compat;  // folder of the Python modules wandb, mlflow and optuna (compat_folder); empty: none
  Milliseconds lease_term{30000};
  double stall_seconds = 600;       // a job without progress for this long is killed and retried
  double stop_grace_seconds = 120;  // time between a request to stop and SIGTERM
  double drain_seconds = 600;       // time that jobs have to end after the agent was asked to end; then SIGKILL
  int64_t most_failures = 5;  // different jobs that fail soon, one after another, before claiming pauses; 0: no limit
  std::function<std::shared_ptr<ArtifactStores>()>
      artifacts;       // makes stores for a separate thread; empty: no artifact store
  std::string listen;  // address for channels of ranks on other hosts (jobs/progress/tcp.h); empty: none
  std::string store;   // store for artifacts (store_address); empty: none
  std::string queue;   // identity of the queue, written into each attempt's mark (attempt_folder.h)
  /// Removes old attempts and logs the result; empty: nothing is removed. Called on a background thread, about once an
  /// hour. Ends early when `stop` returns true. Must own its data, since hanging storage may make it outlive the agent.
  std::function<void(const std::function<bool()>& stop)> clean;
  bool until_empty = false;  // the agent ends when no job is left that it could ever run
};

class World;
/// Returns `options` with the defaults of this machine (name, CPUs) and canonical roots, and makes the run root. Throws
/// JobsError if a data root is no folder, FileError if the run root cannot be made, and the errors of allowed_path.
AgentOptions completed(AgentOptions options, World& world);

/// Holds the GPUs and CPUs that a job occupies on an agent.
struct JobSlots {
  std::vector<std::string> gpus{};  // ids of the GPUs
  std::vector<AgentHost> hosts{};   // each with the CPUs that the job has there; an empty name is the agent's host
};

/// Counts the free CPUs and GPUs of an agent. A GPU belongs to one job at a time; no rank spans two hosts.
class Slots {
 public:
  /// All slots are free. Without `hosts`, the CPUs are of the agent's host. Throws JobsError if a GPU is listed twice.
  Slots(int64_t cpus, const std::vector<std::string>& gpus, const std::vector<AgentHost>& hosts = {});
  int64_t free_cpus() const;
  int64_t free_gpus() const { return free_gpus_.size(); }
  /// Returns the free CPUs of each host that answers, in the order of `hosts`; empty if the agent has no `hosts`.
  std::vector<int64_t> free_of_hosts() const;
  /// Marks `hosts` as silent and all other hosts of the agent as answering. Nothing is free on a silent host; before
  /// the first call all hosts are silent.
  void set_silent(std::set<std::string> hosts);
  /// Takes and returns the slots for a job; empty if it does not fit. Ranks fill the hosts one after the other.
  std::optional<JobSlots> take(const Resources& resources);
  void give_back(const JobSlots& slots);  // frees the slots of a job

 private:
  bool answers(const AgentHost& host) const { return host.name.empty() || (asked_ && !silent_.contains(host.name)); }

  std::vector<AgentHost> free_hosts_;   // free CPUs; an empty name is the agent's host
  bool asked_ = false;                  // set_silent() was called
  std::set<std::string> silent_;        // hosts that do not answer
  std::vector<std::string> free_gpus_;  // ids of free GPUs, sorted
};

/// Makes a queue with a separate connection. The agent makes one for each of its threads and for wake-up messages.
using QueueFactory = std::function<std::shared_ptr<JobQueue>()>;
/// Decides and returns the deferred parameters of a lease (jobs/sweep/proposer.h). Called before the job's first start.
using Proposer = std::function<Parameters(JobQueue& queue, const Lease& lease)>;

}  // namespace foretime::jobs
