#pragma once

#include <cstdint>
#include <cstdlib>
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

/// Words separated by blanks; '…' and "…" group, also within a word. Throws JobsError: an open quote.
std::vector<std::string> split_words(const std::string& text);

/// Turns a job into a command line. The template belongs to the agent's operator, never to a job: words separated by
/// blanks (quotes group, no shell), with {ranks} {cpus} {gpus} {threads} filled in and {command} standing for the
/// program and its arguments, each a word of its own. Words with {gpus} are left out for a job that asks for none.
/// Where an agent's jobs run on other hosts, {hosts} stands for those of a job and how many ranks each has: h1:4,h2:2.
class Launcher {
 public:
  /// "auto" (direct for one rank, mpirun for more), "direct", "mpirun", "srun", or a template with {command}. Throws
  /// JobsError: {command} is missing or not a word of its own, an unknown {name}, an open quote. `in_step`: the agent
  /// is itself a task of srun. `over_hosts`: jobs run where {hosts} says, which a template must have then; auto is
  /// mpirun.
  explicit Launcher(const std::string& text, bool in_step = std::getenv("SLURM_STEP_ID") != nullptr,
                    bool over_hosts = false);
  std::vector<std::string> arguments(const Resources& resources, const std::vector<std::string>& command,
                                     const std::string& hosts = "") const;
  const std::string& text() const { return text_; }
  /// Whether ranks may run on other hosts.
  bool may_leave_host() const { return text_ != "auto" && text_ != "direct"; }
  /// What of `environment` (NAME=VALUE, ending in null) a job must not see: variables of the step, or of the MPI
  /// launch, that the agent itself is part of, which would make a job's ranks take themselves for its members, or
  /// options of srun. Where srun starts the ranks, the allocation's stay.
  std::vector<std::string> variables_of_outer_launch(char* const* environment) const;

  /// Open MPI's daemons find a host that has gone silent by TCP's keepalive; by default after eight minutes.
  /// It waits about twice the time-out whenever it has to end a rank, whether the rank still lives or not: a
  /// crash is to be known soon, and checkpoints are asked for by the socket long before SIGTERM.
  static constexpr const char* kMpirun =
      "mpirun -n {ranks} --bind-to none --oversubscribe -x FORETIME_PROGRESS -x FORETIME_PROGRESS_TCP "
      "-x FORETIME_PROGRESS_TOKEN -x OMP_NUM_THREADS --mca odls_base_sigkill_timeout 5 "
      "--mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 {command}";
  /// For an agent that is no step itself. Jobs get CPUs of their own, and share the allocation's memory: a step would
  /// take all of it otherwise, and the next one wait. srun ends with the highest code of its ranks: one that it ended
  /// because another was faster would hide theirs, so a rank that is left alone has a minute.
  static constexpr const char* kSrun =
      "srun --mpi=pmix --ntasks={ranks} --cpus-per-task={cpus} --gpus-per-task={gpus} --exact --mem=0 "
      "--kill-on-bad-exit=0 --wait=60 {command}";
  /// For an agent that is a step, and holds what the job's step asks for.
  static constexpr const char* kSrunInStep =
      "srun --mpi=pmix --ntasks={ranks} --cpus-per-task={cpus} --gpus-per-task={gpus} --exact --overlap "
      "--kill-on-bad-exit=0 --wait=60 {command}";

 private:
  std::string text_;
  std::vector<std::string> words_;
};

struct AgentOptions {
  std::string name;               // host:pid:random where empty
  std::string version;            // for whoever watches
  int64_t cpus = 0;               // slots; 0: all cores
  std::vector<std::string> gpus;  // ids as CUDA_VISIBLE_DEVICES takes them
  std::vector<AgentHost> hosts;   // that jobs run on, whose CPUs `cpus` then is the sum of; empty: this one alone
  HostProbe host_probe;           // where there are `hosts`
  int64_t max_jobs = 0;           // at once; 0: as many as fit
  AllowedRoots roots;
  Launcher launcher{"auto"};
  std::string program;  // the foretime that runs jobs; empty: this one (/proc/self/exe)
  Milliseconds lease_term{30000};
  double stall_seconds = 600;       // a job that shows no progress for so long is killed and tried again
  double stop_grace_seconds = 120;  // for a checkpoint, after a request to stop, before SIGTERM
  double drain_seconds = 600;       // SIGTERM: jobs get so long to checkpoint
  int64_t most_failures = 5;  // different jobs that fail in a row and soon before claiming stops; 0: it never does
  std::function<std::shared_ptr<ArtifactStores>()> artifacts;  // for a thread of its own; empty: the run root is all
  std::string listen;  // where channels listen for ranks of other hosts (jobs/progress/tcp.h); empty: nowhere
  std::string store;   // where artifacts are stored (store_address); empty: nowhere
  std::string queue;   // its identity, which the mark of each attempt's folder names (attempt_folder.h)
  /// Removes old attempts, beside the loop and at most once an hour, until `stop` says so; says itself what it did.
  /// Owns what it uses, because storage that hangs may keep it for longer than the agent. Empty: nothing is removed.
  std::function<void(const std::function<bool()>& stop)> clean;
  bool until_empty = false;  // end when no job is left that this agent could ever run
};

class World;
/// With what was left to this machine: name and CPUs; roots become real paths, and the run root is made. Throws
/// JobsError where a root cannot be used.
AgentOptions completed(AgentOptions options, World& world);

/// What a job holds of an agent.
struct JobSlots {
  std::vector<std::string> gpus{};
  std::vector<AgentHost> hosts{};  // with the CPUs that it has there; one without a name is the agent's own
};

/// The CPUs and GPUs of an agent. A GPU belongs to one job at a time; no rank is on two hosts.
class Slots {
 public:
  /// Throws JobsError where a GPU is named twice. Without `hosts`, the CPUs are the agent's own host's.
  Slots(int64_t cpus, const std::vector<std::string>& gpus, const std::vector<AgentHost>& hosts = {});
  int64_t free_cpus() const;
  int64_t free_gpus() const { return static_cast<int64_t>(free_gpus_.size()); }
  /// Of each host that answers; empty where the agent has no `hosts`.
  std::vector<int64_t> free_of_hosts() const;
  /// Of the agent's `hosts` all but these answer. Before the first call none does; nothing is free on a silent one.
  void set_silent(std::set<std::string> hosts);
  /// Empty where the job does not fit. Ranks fill the hosts one after the other.
  std::optional<JobSlots> take(const Resources& resources);
  void give_back(const JobSlots& slots);

 private:
  bool answers(const AgentHost& host) const { return host.name.empty() || (asked_ && !silent_.contains(host.name)); }

  std::vector<AgentHost> free_hosts_;  // with the CPUs that are free; one without a name: the agent's own
  bool asked_ = false;
  std::set<std::string> silent_;
  std::vector<std::string> free_gpus_;  // sorted
};

/// Makes a queue with a connection of its own; the agent has one each for its loop, its heartbeat and what it
/// is told.
using QueueFactory = std::function<std::shared_ptr<JobQueue>()>;
/// Decides deferred parameters of a lease (jobs/sweep/proposer.h); called before the job's first start.
using Proposer = std::function<Parameters(JobQueue& queue, const Lease& lease)>;

}  // namespace foretime::jobs
