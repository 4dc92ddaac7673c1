#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "base/files.h"
#include "jobs/agent/allowed_roots.h"
#include "jobs/agent/world.h"
#include "jobs/queue/job.h"

namespace foretime::jobs {

/// What keeps a machine from doing any job's work: a run root where no file can be written and synced; a data root, or
/// the folder of programs, that is not there, cannot be listed or is empty (a mount that is missing). Empty: nothing
/// does.
std::string find_trouble(Files& files, const AllowedRoots& roots);

/// Whether the machine of an agent is to blame where jobs fail: a broken one must not drain the queue.
///
/// It looks at the roots (find_trouble) before a job starts and once more when one has failed, in a thread of its own,
/// since storage may hang: no answer within kHangs is trouble too. While there is trouble the agent claims nothing,
/// gives back what it holds, and looks again after kFirstPause to kLongestPause. Where the roots are well and yet
/// `most_failures` different jobs in a row end within kSoon or by a failure of the storage, the agent claims nothing
/// for a while either, and then tries a single job: one that succeeds or runs for longer than kSoon ends the pause. A
/// job that failed on another agent first tells nothing when it fails here, and one that failed here first and then
/// elsewhere too tells nothing any more: where half of the failures are such, the pause ends.
class NodeHealth {
 public:
  static constexpr double kFresh = 5, kHangs = 30, kSoon = 10;   // seconds
  static constexpr double kFirstPause = 5, kLongestPause = 300;  // seconds
  static constexpr size_t kSuspects = 16;

  /// `wake` is called, from any thread, when a look is over.
  NodeHealth(std::string who, const AllowedRoots& roots, int64_t most_failures, std::function<void()> wake,
             World& world, spdlog::logger& log);
  ~NodeHealth();  // does not wait for storage that hangs
  NodeHealth(const NodeHealth&) = delete;
  NodeHealth& operator=(const NodeHealth&) = delete;

  /// Whether another job may be claimed now.
  bool may_claim(double now);
  /// A job was claimed.
  void claimed(const std::string& job, double now);

  enum class Answer { wait, well, trouble };
  /// How the machine was found by a look that began at `since` or later; asks for one where there was none.
  Answer seen_since(double since, double now);

  /// An attempt has ended.
  void ended(const Lease& lease, const JobResult& result, double now);
  /// The machine could not start an attempt, and gives the job back.
  void could_not_start(const std::string& job, const std::string& why, double now);

  /// Jobs that the machine is blamed for, at most kSuspects, while that keeps it from claiming.
  std::vector<std::string> suspects() const;
  /// How many failures a suspect has by now, wherever that was.
  void heard_of(const std::string& job, int64_t failures);

  /// When something changes although no look ends.
  double next_turn() const { return asked_at_ < 0 ? kNever : asked_at_ + kHangs; }
  /// The first look of all goes on.
  bool looks_first() const { return asked_at_ >= 0 && !looked_ && trouble_.empty(); }

  /// Why nothing is claimed; empty: the machine is well. At most Limits::kTrouble bytes.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Look {
    double began = -1e300;  // before kNever
    std::string trouble;
  };
  /// All that the thread beside uses: where storage hangs, a look may outlive the agent.
  struct Looker {
    /// Looks where that was asked for. Returns seconds until the next call.
    double step();
    AllowedRoots roots;
    Files& files;  // those of the thread that made this
    World& world;
    std::mutex mutex{};            // over what follows
    std::function<void()> wake{};  // empty: nobody is there any more
    bool wanted = false;
    Look last{};
  };
  void note(const std::string& trouble, double now);
  void pause(const std::string& why, double now);
  void count_failure(const std::string& job, const std::string& why, double now);
  void acquit(const std::string& job);
  void forget_failures();

  std::string who_;
  AllowedRoots roots_;
  int64_t most_failures_;
  World& world_;
  spdlog::logger& log_;

  std::string trouble_, seen_;  // seen_: of the last look
  double pause_ = 0;            // seconds; 0: there is no trouble
  double next_try_ = 0;         // until then nothing is claimed
  bool looked_ = false;         // a look has ended
  bool trying_ = false;         // one job may be claimed
  std::string tried_;           // that job
  double tried_at_ = 0;
  // Jobs that failed soon, since one did not, and how often they had failed then; kAcquitted: elsewhere too.
  std::map<std::string, int64_t> failed_;
  int64_t never_started_ = 0;  // attempts, since one did
  double asked_at_ = -1;       // of a look without an answer; below 0: there is none

  std::shared_ptr<Looker> looker_;
  std::unique_ptr<Background> background_;
};

}  // namespace foretime::jobs
