#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "cli/board/run_api.h"
#include "coordinator/checkpoint_store.h"
#include "experiments/metrics.h"
#include "history/run_history.h"
#include "jobs/agent/attempt_end.h"
#include "jobs/agent/old_attempts.h"
#include "jobs/agent/run_folder.h"
#include "jobs/artifacts/transfer.h"
#include "server/http/http.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "SECRET-OF-THE-OWNER";
constexpr auto kLongest = std::chrono::seconds(60);  // far more than any reader takes

/// A file that readers look for, and what a private one of that name holds: each reader would show it.
struct KnownFile {
  const char* name;
  const char* secret;
};
constexpr KnownFile kFiles[] = {
    {"metrics.jsonl",
     "{\"kind\":\"train\",\"step\":1,\"SECRET-OF-THE-OWNER\":1}\n"
     "{\"kind\":\"final\",\"step\":1,\"a/SECRET-OF-THE-OWNER\":1}\n"},
    {"config.yaml", "SECRET-OF-THE-OWNER: 1\n"},
    {"comparison.txt", "SECRET-OF-THE-OWNER\n"},
    {"profile.txt", "SECRET-OF-THE-OWNER\n"},
    {"parameters.json", "{\"SECRET-OF-THE-OWNER\":1}"},
    {"rankings.csv",
     "set,group,candidate,id,score,predicted_runtime,runtime\ntest,SECRET-OF-THE-OWNER,0,a,1,2,3\n"
     "test,SECRET-OF-THE-OWNER,1,b,2,3,4\n"},
    {"trace.json",
     "{\"traceEvents\":[{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":\"SECRET-OF-THE-OWNER\",\"ts\":1,\"dur\":2}]}"},
    {"summary.md", "# SECRET-OF-THE-OWNER\n"},
    {"results.csv", "entry,kind,fraction,seed,metric,unit,value\nSECRET-OF-THE-OWNER,model,1,1,m,u,1\n"},
    {"trial.json", "{\"key\":\"SECRET-OF-THE-OWNER\"}"},
    {"data.json", "{\"fingerprint\":\"SECRET-OF-THE-OWNER\"}"},
    {"attempt.json", "{\"job\":\"job\",\"queue\":\"SECRET-OF-THE-OWNER\"}"},
    {"model.foretime", "SECRET-OF-THE-OWNER"},
    {"events.out.tfevents.1.host.foretime", "SECRET-OF-THE-OWNER"},
    {"output.log", "SECRET-OF-THE-OWNER"},
    {"checkpoints/best.json", "{\"step\":7,\"metric\":\"SECRET-OF-THE-OWNER\",\"value\":1}"},
    {"checkpoints/step-00000007/manifest.json",
     "{\"format\":1,\"step\":7,\"files\":{\"weights\":{\"bytes\":19,\"crc32\":1}}}"},
    {"checkpoints/step-00000007/weights", "SECRET-OF-THE-OWNER"},
    {"export/manifest.json", "{\"files\":{}}"},
};
constexpr const char* kFolders[] = {"checkpoints", "checkpoints/step-00000007", "export"};
constexpr const char* kRuns[] = {"run", "job/attempt-1", "job/attempt-2", "experiment",
                                 "experiment/entry/fraction-1/seed-1"};

/// Ends the process where a reader does not return.
class Deadline {
 public:
  Deadline()
      : thread_([this] {
          std::unique_lock lock(mutex_);
          require(done_.wait_for(lock, kLongest, [this] { return over_; }), "readers of run directories return",
                  "a hang");
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

void write(const fs::path& file, std::string_view bytes) { std::ofstream(file, std::ios::binary) << bytes; }

void bind_socket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof(address.sun_path)) return;
  path.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  static_cast<void>(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  ::close(descriptor);
}

/// The scene of one input: ROOT/runs, which anybody writes, and ROOT/private, which nobody but its owner reads.
class Scene {
 public:
  Scene() : root_(fs::temp_directory_path() / ("foretime-fuzz-runs-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    for (const auto* folder : kFolders) fs::create_directories(root_ / "private" / folder);
    for (const auto& file : kFiles) write(root_ / "private" / file.name, file.secret);
    fs::create_directories(root_ / "runs");
  }
  ~Scene() { fs::remove_all(root_); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  fs::path runs() const { return root_ / "runs"; }
  fs::path copies() const { return root_ / "copies"; }

  void fill(Choices& choices) {
    for (const auto* run : kRuns) {
      if (choices.below(4) == 0 && !fs::path(run).has_parent_path()) {
        place(choices, run, "");
        continue;
      }
      std::error_code is_no_folder;
      fs::create_directories(runs() / run, is_no_folder);
      for (const auto* folder : kFolders) {
        if (choices.below(6) == 0) place(choices, fs::path(run) / folder, folder);
        else fs::create_directories(runs() / run / folder, is_no_folder);
      }
      for (const auto& file : kFiles) place(choices, fs::path(run) / file.name, file.name);
    }
  }

 private:
  /// An entry of any kind, or none. `known`: the private one of the same meaning.
  void place(Choices& choices, const fs::path& name, const std::string& known) {
    const auto path = runs() / name, secret = root_ / "private" / known;
    std::error_code failure;
    if (!fs::is_directory(path.parent_path(), failure) || fs::is_symlink(fs::symlink_status(path, failure))) return;
    switch (choices.below(18)) {
      case 0:
      case 1:
      case 2: {
        std::string own;
        for (const auto& file : kFiles)
          if (known == file.name) own = file.secret;
        for (size_t at = 0; (at = own.find(kSecret, at)) != std::string::npos;)
          own.replace(at, std::strlen(kSecret), "own");
        return write(path, own);
      }
      case 3: return write(path, choices.take(choices.below(200)));
      case 4: write(path, ""); return fs::resize_file(path, uint64_t{1} << 42, failure);  // takes no room
      case 5: ::mkfifo(path.c_str(), 0600); return;
      case 6: return bind_socket(path);
      case 7: return fs::create_symlink(secret, path, failure);
      case 8: return fs::create_symlink(secret.lexically_relative(path.parent_path()), path, failure);
      case 9: return fs::create_symlink(choices.flag() ? "/dev/zero" : "/proc/self/environ", path, failure);
      case 10: return fs::create_symlink(path.filename(), path, failure);
      case 11: return fs::create_symlink("/dev/stdin", path, failure);
      case 12:
        if (::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) ::mkfifo(path.c_str(), 0600);  // root alone may
        return;
      case 13: {
        auto deep = path;
        for (int level = 0; level < 12; ++level) deep /= "d";
        fs::create_directories(deep, failure);
        return;
      }
      case 14: write(path, known); return fs::permissions(path, fs::perms::none, failure);
      default: return;
    }
  }

  fs::path root_;
};

/// What a reader shows, or why it refuses. Nothing but an Error may come out of it.
template <class Read>
void show(const Read& read) {
  std::string shown;
  try {
    shown = read();
  } catch (const server::HttpError& error) {
    shown = error.message;
  } catch (const Error& error) {
    require(std::strlen(error.what()) > 0, "a refusal has a message", "");
    shown = error.what();
  }
  require(shown.find(kSecret) == std::string::npos, "no reader shows what lies outside of a run directory",
          shown.substr(0, 400).c_str());
}

std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string text_of(const std::map<std::string, double>& numbers) { return text_of(nlohmann::json(numbers)); }
std::string text_of(const jobs::PackedArtifact& packed) {
  std::string text;
  for (const auto& [name, bytes] : packed.contents) text += name + ": " + bytes + "\n";
  return text;
}

void read_by_board(const fs::path& root, const std::string& run) {
  show([&] { return text_of(cli::show_run(root, run)); });
  show([&] { return text_of(cli::show_rankings(root, run)); });
  show([&] { return text_of(cli::show_experiment(root, run)); });
  for (const std::string file : cli::kRunFiles)
    show([&] {
      const auto next = cli::run_file(root, run, file);
      std::string text;
      for (auto piece = next(); !piece.empty(); piece = next()) text += piece;
      return text;
    });
}

void read_by_agent(const Scene& scene, const fs::path& run) {
  show([&] {
    const auto metrics = jobs::read_final_metrics(run, true);
    return metrics ? text_of(metrics->metrics) : "";
  });
  const auto checkpoint = run / "checkpoints/step-00000007";
  show([&] { return jobs::checkpoint_damage(checkpoint); });
  show([&] { return jobs::newest_whole_checkpoint(run / "checkpoints").string(); });
  show([&] { return text_of(jobs::pack_run(run)); });
  show([&] { return text_of(jobs::pack_checkpoint(run, "checkpoints/step-00000007")); });
  show([&] { return text_of(jobs::pack_product(run, "model.foretime")); });
  show([&] { return text_of(jobs::pack_product(run, "export")); });
  show([&] { return std::to_string(jobs::best_step_of(run)); });
  for (const auto kind : {jobs::JobKind::train, jobs::JobKind::export_, jobs::JobKind::finetune}) {
    show([&] {
      jobs::AttemptEnd end{.folder = run, .roots = {.data = {}, .runs = scene.runs()}};
      end.lease.spec.kind = kind;
      end.result.outcome = jobs::Outcome::succeeded;
      end.read_files();
      return text_of(end.metrics) + end.result.error;
    });
  }
  show([&] {
    fs::create_directories(scene.copies());
    jobs::keep_checkpoints(checkpoint, scene.copies());
    std::string copied;
    for (const auto& entry : fs::recursive_directory_iterator(scene.copies())) {
      require(!entry.is_symlink(), "a checkpoint that is kept holds no links", entry.path().c_str());
      if (entry.is_regular_file())
        copied += std::string(std::istreambuf_iterator(std::ifstream(entry.path()).rdbuf()), {});
    }
    fs::remove_all(scene.copies());
    return copied;
  });
}

void read_by_trainer(const fs::path& run) {
  show([&] {
    std::string groups;
    for (const auto& group : experiments::read_rankings(run / "rankings.csv", {"test"})) groups += group.group;
    return groups;
  });
  const coordinator::CheckpointStore store(run / "checkpoints");
  // Whoever trains may have moved checkpoints to another disk.
  const bool moved = fs::is_symlink(run / "checkpoints") || fs::is_symlink(run / "checkpoints/step-00000007");
  if (moved) return;
  show([&] { return std::to_string(store.best_step().value_or(-1)); });
  show([&] {
    std::string bytes;
    for (const auto step : store.steps())
      for (const auto& [name, text] : store.read(step).files) bytes += text;
    return bytes;
  });
}

}  // namespace

void run_runs(std::string_view bytes) {
  Choices choices(bytes);
  Scene scene;
  scene.fill(choices);
  const Deadline deadline;
  const auto root = scene.runs();
  show([&] { return text_of(cli::list_runs(root)); });
  for (const std::string run : {"run", "job", "job/attempt-1", "experiment", "experiment/entry/fraction-1/seed-1", ".",
                                "../private", "none", ""}) {
    read_by_board(root, run);
    show([&] { return text_of(history::to_json(history::read_run(root, run))); });
  }
  for (const auto* run : kRuns) {
    std::error_code unknown;
    if (fs::symlink_status(root / run, unknown).type() != fs::file_type::directory) continue;  // agents make these
    read_by_agent(scene, root / run);
    read_by_trainer(root / run);
  }
  jobs::JobRecord job;
  job.spec.id = "job";
  job.state = jobs::JobState::succeeded;
  show([&] {
    std::string old;
    for (const auto& attempt : jobs::old_attempts(root, job, "queue", {}, fs::file_time_type::clock::now()))
      old += attempt.string();
    for (const auto& attempt :
         jobs::forgotten_attempts(root, {"job", "queue"}, std::chrono::seconds(0), fs::file_time_type::clock::now()))
      old += attempt.string();
    return old;
  });
}

}  // namespace foretime::fuzz
