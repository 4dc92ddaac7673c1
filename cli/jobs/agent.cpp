#include "jobs/agent/agent.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "base/duration.h"
#include "base/logger/logger.h"
#include "base/no_copy.h"
#include "base/stop_signals.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "cli/version/build_info.h"
#include "jobs/agent/gpus.h"
#include "jobs/agent/host_watch.h"
#include "jobs/agent/old_attempts.h"
#include "jobs/agent/program_folder.h"
#include "jobs/agent/world.h"
#include "jobs/error.h"
#include "jobs/progress/tcp.h"
#include "jobs/sweep/proposer.h"

namespace foretime::cli {
namespace {

constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{20};
constexpr double kLongestTime = 7 * 86400;  // seconds, of any option

struct AgentCommandOptions {
  QueueOptions queue;
  jobs::AgentOptions agent;
  std::string launcher = "auto", artifacts, listen = "auto", hosts;
  std::string host_check = "ssh -o BatchMode=yes -o ConnectTimeout=5 {host} true";
  std::vector<std::string> data_roots = {"."};
  std::string programs;
  bool assume_gpus = false;
  double lease_seconds = 30;
  double clean_days = 0;                                         // 0: not given
  bool keeps = false, keeps_jobs = false, checks_hosts = false;  // --keep-days, --keep-jobs, --host-check was given
};

double days(jobs::Milliseconds time) { return time.count() / 86'400'000.0; }

// A signal handler can reach nothing but these.
std::atomic<jobs::Agent*> running_agent = nullptr;
std::atomic<int> passed_requests = 0;

void stop_agent(int, int request) {
  auto* agent = running_agent.load();
  if (agent != nullptr && passed_requests.exchange(request) != request) agent->request_stop();
}

/// Signals reach the agent while this lives.
class SignalsTo : NoCopy {
 public:
  explicit SignalsTo(jobs::Agent& agent) {
    running_agent = &agent;
    signals_.emplace(stop_agent);
  }
  ~SignalsTo() { running_agent = nullptr; }

 private:
  std::optional<StopSignals> signals_;
};

std::filesystem::path existing(const std::string& option, const std::filesystem::path& folder) {
  std::error_code failure;
  auto real = std::filesystem::canonical(folder, failure);
  if (failure || !std::filesystem::is_directory(real))
    throw jobs::JobsError("{} {}: {}, expected a folder", option, folder.string(),
                          failure ? failure.message() : "no folder");
  return real;
}

/// Connects to the queue and asks for its identity, which marks what the agent leaves on disk. After a power cut, say,
/// agents may start before Redis does: they wait for it as they do later. One that was asked to end when there is no
/// work does not wait.
std::unique_ptr<QueueAccess> connect(AgentCommandOptions& options, spdlog::logger& log) {
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    try {
      auto access =
          std::make_unique<QueueAccess>(options.queue, options.agent.until_empty ? Start::never : Start::if_needed);
      options.agent.queue = access->identity(jobs::real_world().random_hex(32));
      return access;
    } catch (const jobs::RedisUnavailable& error) {
      if (options.agent.until_empty) throw;
      log.warn("{}; will retry in {} s", error.what(), pause.count());
      std::this_thread::sleep_for(pause);
    }
  }
}

/// Agents of one queue keep ended jobs alike.
void agree_to_keep(QueueAccess& access, const AgentCommandOptions& options, spdlog::logger& log) {
  const jobs::Retention wanted{access.settings().keep_finished, access.settings().keep_jobs};
  try {
    const auto kept = access.agree_to_keep(wanted, false);
    const auto differs = [&](const std::string& option, auto asked, auto rules) {
      log.warn("{} {}: the queue already keeps {}, which this agent uses; `foretime queue {} {}` changes it for all",
               option, asked, rules, option, asked);
    };
    if (options.keeps && kept.time != wanted.time) differs("--keep-days", options.queue.keep_days, days(*kept.time));
    if (options.keeps_jobs && kept.jobs != wanted.jobs) differs("--keep-jobs", *wanted.jobs, *kept.jobs);
  } catch (const jobs::RedisUnavailable&) {
    // The agent waits for Redis; until the queue has an answer, its own one counts.
  }
}

/// Removes attempts that nobody needs below the run root; owns all that it uses.
auto cleaner(const AgentCommandOptions& options, const QueueAccess& access, std::shared_ptr<spdlog::logger> log) {
  const auto age = jobs::seconds_of_days(options.clean_days);
  return [runs = options.agent.roots.runs, retention = jobs::AttemptRetention{.age = age, .forgotten = age},
          url = access.url(), settings = access.settings(), log = std::move(log)](const std::function<bool()>& stop) {
    try {
      if (!jobs::begin_cleaning(runs, std::filesystem::file_time_type::clock::now())) return;
      jobs::RedisClient client(url);
      jobs::QueueReader reader(client, settings);
      const auto cleaned = jobs::clean_attempts(runs, reader, retention, true, stop);
      for (const auto& what : cleaned.kept) log->warn("could not remove {}", what);
      if (!cleaned.removed.empty()) log->info("{} old attempts removed", cleaned.removed.size());
    } catch (const std::exception& error) {
      log->warn("cannot remove old attempts, will retry: {}", error.what());
    }
  };
}

/// Returns how often jobs have made these transitions (QueueStatistics::totals) since the queue was made.
int64_t transitions_ever(jobs::QueueReader& reader, const std::vector<std::string>& names) {
  int64_t count = 0;
  const auto totals = reader.statistics().totals;
  for (const auto& name : names)
    if (const auto found = totals.find(name); found != totals.end()) count += found->second;
  return count;
}

/// Returns the address where jobs on several hosts reach this agent.
std::string listen_address(const AgentCommandOptions& options, const jobs::RedisUrl& redis, spdlog::logger& log) {
  if (options.listen == "none" || !options.agent.launcher.may_leave_host()) return "";
  auto address = options.listen == "auto" ? jobs::own_address(redis.host, redis.port) : options.listen;
  if (address.empty()) {
    log.warn(
        "--listen auto: this host has no address that others reach: "
        "jobs with rank 0 on another host cannot report progress");
    return "";
  }
  if (options.listen == "auto" && address.find(':') != std::string::npos) address = "[" + address + "]";
  std::string tried;
  jobs::listen_tcp(jobs::parse_listen_address(address), tried);
  log.info("jobs of several hosts report to {}", address);
  return address;
}

/// Jobs run on the hosts of --hosts.
void use_hosts(AgentCommandOptions& options) {
  auto& agent = options.agent;
  if (!agent.gpus.empty())
    throw jobs::JobsError(
        "--gpus: found {}, which are GPUs of this host: expected none with --hosts, "
        "whose jobs see the GPUs of their own hosts only where the launcher gives them; use an agent on each host",
        fmt::join(agent.gpus, ","));
  if (agent.cpus > 0)
    throw jobs::JobsError("--cpus: found {}, expected none with --hosts, which gives the CPUs of each host",
                          agent.cpus);
  agent.hosts = jobs::parse_hosts(options.hosts);
  agent.host_probe = jobs::command_probe(options.host_check, jobs::HostWatch::kPatience);
  agent.launcher = jobs::Launcher(options.launcher, std::getenv("SLURM_STEP_ID") != nullptr, /*over_hosts=*/true);
}

/// Sets the launcher. Refuses options about other hosts if jobs stay on this one.
void choose_launcher(AgentCommandOptions& options) {
  if (options.hosts.empty() && options.checks_hosts)
    throw jobs::JobsError(
        "--host-check: found no --hosts, expected the hosts to check, such as --hosts h1:8,h2:8, or leave it out");
  if (options.hosts.empty()) options.agent.launcher = jobs::Launcher(options.launcher);
  else use_hosts(options);
  if (options.listen == "auto" || options.listen == "none") return;
  jobs::parse_listen_address(options.listen);
  if (!options.agent.launcher.may_leave_host())
    throw jobs::JobsError(
        "--listen {}: the launcher {} starts jobs on this host, where they need no address; "
        "add --launcher mpirun (or srun, or a template), or leave --listen out",
        options.listen, options.launcher);
}

void run(AgentCommandOptions& options, int& exit_code) {
  choose_launcher(options);
  if (!options.assume_gpus && !options.agent.gpus.empty()) jobs::check_gpus(options.agent.gpus, jobs::find_gpus());
  std::error_code failure;
  // One that ends when there is no work has none where nothing was submitted: a mistyped --runs makes no folder.
  if (!options.agent.until_empty) std::filesystem::create_directories(options.queue.runs, failure);
  if (!options.programs.empty()) options.agent.roots.programs = existing("--programs", options.programs);
  options.agent.compat = jobs::compat_folder(std::filesystem::read_symlink("/proc/self/exe", failure));
  for (const auto& root : options.data_roots) options.agent.roots.data.push_back(existing("--data-root", root));
  options.agent.lease_term = milliseconds_of(options.lease_seconds);
  const auto store = jobs::store_address(options.artifacts);
  const auto log = make_logger("", spdlog::level::info);
  const auto connection = connect(options, *log);
  auto& access = *connection;
  std::filesystem::create_directories(options.queue.runs, failure);
  options.agent.roots.runs = existing("--runs", options.queue.runs);
  log->info("queue at {}, prefix {}", access.name(), access.settings().prefix);
  agree_to_keep(access, options, *log);
  options.agent.store = jobs::store_of_queue(store, options.agent.queue);
  if (options.clean_days > 0) options.agent.clean = cleaner(options, access, log);
  options.agent.listen = listen_address(options, access.url(), *log);
  options.agent.artifacts = [&access, store = options.agent.store] {
    auto stores = access.make_stores();
    stores->restrict_to(store);
    return stores;
  };
  jobs::Agent agent(
      options.agent, [&access] { return access.make_queue(); }, jobs::redis_proposer(access.url(), access.settings()),
      *log);
  const SignalsTo signals(agent);
  const bool counts = options.agent.until_empty;
  const auto count = [&](const std::vector<std::string>& names) {
    return counts ? transitions_ever(access.reader(), names) : 0;
  };
  const int64_t before = count({"failed", "dead"});
  if (counts && count({"submitted"}) == 0)
    log->warn("no job was ever submitted to the queue at {}: are --redis, --runs and --prefix those of the submit?",
              access.name());
  const auto finished = agent.run();
  const int64_t failed = count({"failed", "dead"}) - before;
  if (counts && StopSignals::received() != 0) {
    log->info("stopped by a signal before the queue was empty; run the same command again to continue");
    exit_code = kPreempted;
    return;
  }
  if (counts && finished == 0 && failed <= 0) {
    const auto jobs = access.reader().statistics().jobs;
    const auto of = [&](jobs::JobState state) { return jobs.contains(state) ? jobs.at(state) : 0; };
    if (const auto earlier = of(jobs::JobState::failed) + of(jobs::JobState::dead); earlier > 0)
      log->info(
          "{} jobs of the queue failed or died earlier and will not run by themselves: foretime retry ID runs a job, "
          "or those of a sweep, again",
          earlier);
  }
  if (failed <= 0) return;
  log->error(
      "{} jobs failed or died while this agent ran: `foretime status --state failed` and `--state dead` list them",
      failed);
  exit_code = kJobsFailed;
}

void add_options(CLI::App& command, AgentCommandOptions& options) {
  auto& agent = options.agent;
  command.add_flag("--until-empty", agent.until_empty,
                   "end when no job is left that this agent could ever run; "
                   "exit code 7 where jobs failed or died meanwhile, 75 where a signal ended it before");
  typed_option(command, "--name", agent.name, "name of this agent; default: host, process and a random number", "TEXT");
  command.option_defaults()->group("Slots");
  checked_option(command, "--cpus", agent.cpus, "CPUs that jobs may use; 0: all cores", Least::zero, "N");
  typed_option(command, "--gpus", agent.gpus, "GPUs that jobs may use, e.g. 0,1, as CUDA_VISIBLE_DEVICES takes them",
               "IDS")
      ->delimiter(',');
  command.add_flag("--assume-gpus", options.assume_gpus, "take --gpus as they are, without looking for them");
  typed_option(command, "--hosts", options.hosts,
               "hosts that jobs run on, by mpirun, and how many CPUs jobs may use on each, e.g. h1:8,h2:8; default: "
               "this one alone",
               "HOST:N,…");
  typed_option(command, "--host-check", options.host_check,
               "command whose exit code 0 within 10 s says that a host of --hosts answers", "TEXT")
      ->capture_default_str();
  checked_option(command, "--jobs", agent.max_jobs, "jobs at once; 0: as many as fit", Least::zero, "N");
  command.option_defaults()->group("Jobs");
  typed_option(command, "--data-root", options.data_roots,
               "folder that jobs may read, may be given several times; relative paths of jobs start in the first",
               "DIR")
      ->take_all()
      ->expected(1)
      ->capture_default_str();
  typed_option(command, "--programs", options.programs,
               "run the programs that sweeps name, in this folder; default: such jobs are left to other agents. "
               "Whoever may submit can then run anything as this user",
               "DIR");
  typed_option(command, "--launcher", options.launcher,
               "auto (mpirun for more than one rank), direct, mpirun, srun, "
               "or a template such as 'srun -n {ranks} -c {cpus} {command}'",
               "TEXT")
      ->capture_default_str();
  typed_option(command, "--program", agent.program, "the foretime that runs jobs; default: this one", "FILE");
  typed_option(command, "--listen", options.listen,
               "where jobs report whose rank 0 runs on another host: HOST, HOST:PORT or HOST:FIRST-LAST, or none; "
               "auto: the address that reaches Redis, with launchers other than auto and direct",
               "WHERE")
      ->capture_default_str();
  typed_option(command, "--artifacts", options.artifacts,
               "where checkpoints are stored for other hosts: "
               "redis (up to a quota), folder:PATH, or s3://BUCKET/PREFIX; default: nowhere, all agents share --runs",
               "WHERE")
      ->envname("FORETIME_ARTIFACTS");
  checked_option(command, "--pause-after", agent.most_failures,
                 "different jobs in a row that fail within 10 s before this agent pauses claiming; 0: never pauses",
                 Least::zero, "N");
  checked_option(command, "--clean-attempts", options.clean_days,
                 "remove attempts below --runs as `foretime clean --keep 1 --days D --forgotten D --remove` does, "
                 "at most once an hour; default: none is removed",
                 number_range(0.01, 36500.0), "D");
  command.option_defaults()->group("Times");
  const auto seconds = [&](const char* name, double& value, const char* meaning, double least = 0.001) {
    shown_option(command, name, value, meaning, number_range(least, kLongestTime), "S");
  };
  seconds("--lease-seconds", options.lease_seconds, "a job whose agent is silent for so long is given to another", 0.1);
  seconds("--stall-seconds", agent.stall_seconds, "a job without progress for so long is killed and tried again");
  seconds("--stop-grace", agent.stop_grace_seconds, "time for a job's checkpoint, after a request to stop");
  seconds("--drain-seconds", agent.drain_seconds, "time for all jobs' checkpoints, after SIGTERM");
  seconds("--retry-seconds", options.queue.retry_seconds,
          "pause before a failed job's second attempt; it doubles with each. "
          "A job that lost its agents twice in a row waits up to 720 times as long");
  shown_option(command, "--keep-days", options.queue.keep_days,
               "jobs that ended so long ago are forgotten (their run folders stay); 0: never. "
               "The queue keeps what its first agent said; `foretime queue --keep-days` changes it",
               number_range(0.0, 36500.0), "D")
      ->envname("FORETIME_KEEP_DAYS");
  checked_option(command, "--keep-jobs", options.queue.keep_jobs,
                 "of more jobs that ended the oldest are forgotten; about 3 KB of Redis each; 0: all are kept",
                 Least::zero, "N")
      ->envname("FORETIME_KEEP_JOBS")
      ->capture_default_str();
  command.option_defaults()->group("Options");
}

}  // namespace

void add_agent_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AgentCommandOptions>();
  auto* command = app.add_subcommand("agent", "Run jobs of the queue on this machine");
  add_options(*command, *options);
  add_queue_options(*command, options->queue);
  command->footer(
      "SIGTERM, Ctrl-C and a closed terminal (SIGHUP) drain: jobs write a checkpoint and wait for another agent;\n"
      "a second signal, a second later or more, kills them.\n"
      "Examples:\n"
      "  foretime agent --until-empty                                  on a laptop, with its own Redis\n"
      "  FORETIME_REDIS=redis://head:6379 foretime agent --gpus 0,1,2,3 --data-root /data --runs /shared/runs\n"
      "  foretime agent --cpus 16 --launcher srun");
  command->callback([options, command, &app, &exit_code] {
    options->keeps = command->get_option("--keep-days")->count() > 0;
    options->keeps_jobs = command->get_option("--keep-jobs")->count() > 0;
    options->checks_hosts = command->get_option("--host-check")->count() > 0;
    options->agent.version = version_text();
    run(*options, exit_code);
  });
}

}  // namespace foretime::cli
