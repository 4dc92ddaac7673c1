// What a loss of power at any moment leaves of the embedded Redis' folder opens with everything that was acknowledged,
// and with nothing half. All that the server, its guardian and its starter do to files is recorded, and played again up
// to each operation over a file system that loses what was not synced.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/process.h"
#include "jobs/queue/redis_queue.h"
#include "jobs/redis/redis_client.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/jobs/redis/embedded/embedded_fixture.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/file_recorder.h"

namespace foretime::jobs {
namespace {

using namespace embedded;
using simulation::SimulatedFiles;
using testing::FileOperation;
using Fate = SimulatedFiles::Fate;
using Kind = FileOperation::Kind;

/// All of a folder on disk: files with what they hold, and folders, whose names end with a slash.
using Left = std::map<std::string, std::string>;

/// A file system to which recorded operations are done.
class Replay {
 public:
  Replay(const fs::path& folder) { files_.create_folders(folder); }

  void perform(const FileOperation& operation) {
    switch (operation.kind) {
      case Kind::open:
        // By another name of the same file it would be a file of its own; nobody does that.
        open_[operation.file] =
            files_.open(operation.path, (operation.at & 2) != 0 ? Files::Open::replace : Files::Open::append);
        break;
      case Kind::write: {
        auto& file = *open_.at(operation.file);
        file.seek(static_cast<uint64_t>(operation.at));
        file.write(operation.bytes);
        break;
      }
      case Kind::sync:
        if (files_.is_folder(operation.path)) files_.sync_folder(operation.path);
        else open_.at(operation.file)->sync();
        break;
      case Kind::rename: files_.rename(operation.path, operation.other); break;
      case Kind::unlink: files_.remove(operation.path); break;
      case Kind::folder: files_.create_folder(operation.path); break;
      case Kind::truncate: files_.truncate(operation.path, static_cast<uint64_t>(operation.at)); break;
      case Kind::mark: break;
    }
  }
  void all_is_on_disk() {
    for (int i = 0; i < 4; ++i) files_.lose_power([] { return Fate::kept; });
  }
  SimulatedFiles& files() { return files_; }

  Left left(const fs::path& folder) {
    Left found;
    for (const auto& path : files_.list(folder)) {
      if (!files_.is_folder(path)) {
        found[path.string()] = files_.read(path);
        continue;
      }
      found[path.string() + "/"] = "";
      found.merge(left(path));
    }
    return found;
  }

 private:
  SimulatedFiles files_;
  std::map<uint64_t, std::unique_ptr<OutputFile>> open_;  // by inode
};

/// Which names and writes are worth every combination: those of the append-only file and of its record. The rest
/// (locks, owner, configuration, names of what a rewrite had begun) meets one fate together.
bool counts(const std::string& name, bool of_name) {
  if (name.starts_with("temp-rewriteaof-")) return !of_name;
  return name.starts_with("appendonly") || name.starts_with("temp-") || name.starts_with("written") ||
         name == ".redis" || name == "runs";
}

class EmbeddedPowerLoss : public EmbeddedRedisTest {
 protected:
  using Dump = MemoryQueue::Dump;
  struct Client {
    explicit Client(const EmbeddedRedis& redis) : client(redis.url()), queue(client, QueueSettings{}) {}
    Dump dump() { return dump_keys(client, QueueSettings{}.prefix); }
    RedisClient client;
    RedisQueue queue;
  };

  /// A transition that was acknowledged.
  template <class Call>
  void transition(Client& client, testing::FileRecorder& recorder, const Call& call) {
    call(client.queue);
    recorder.mark(static_cast<int64_t>(states_.size()));
    states_.push_back(client.dump());
  }

  void few_jobs(Client& client, testing::FileRecorder& recorder, int count) {
    for (int i = 0; i < count; ++i) {
      const auto id = fmt::format("{:016x}", ++jobs_);
      transition(client, recorder, [&](auto& queue) { queue.submit(job_named(id)); });
      std::optional<Lease> lease;
      transition(client, recorder, [&](auto& queue) { lease = queue.claim(claim_request("token" + id)); });
      ASSERT_TRUE(lease);
      JobResult result;
      result.objective = 0.5;
      if (i % 3 != 2) transition(client, recorder, [&](auto& queue) { queue.finish(*lease, result, 0); });
    }
  }

  void rewrite(Client& client) { client.client.call({"BGREWRITEAOF"}); }
  static void wait_for_rewrite(Client& client) {
    ASSERT_TRUE(eventually([&] {
      const auto info = text_of(*client.client.call({"INFO", "persistence"}));
      return info_field(info, "aof_rewrite_in_progress") == "0" && info_field(info, "aof_rewrite_scheduled") == "0";
    }));
  }

  void record() {
    testing::FileRecorder recorder(base_, scratch_.path() / "operations", "redis.log redis.sock");
    states_.push_back({});  // before all of them
    for (int life = 0; life < 2; ++life) {
      {
        const EmbeddedRedis redis(root_, kLinger);
        Client client(redis);
        few_jobs(client, recorder, 3);
        for (int rewrites = 0; rewrites < 2; ++rewrites) {
          rewrite(client);
          few_jobs(client, recorder, 2);
          wait_for_rewrite(client);
          few_jobs(client, recorder, 2);
        }
      }
      ASSERT_TRUE(all_gone(root_));
    }
    operations_ = recorder.operations();
  }

  /// What the operations make is what is there.
  void check_recording() {
    Replay replay(base_);
    for (const auto& operation : operations_) replay.perform(operation);
    Left there;
    for (const auto& entry : fs::recursive_directory_iterator(base_)) {
      const auto name = entry.path().filename().string();
      if (name == "redis.log") continue;
      there[entry.path().string() + (entry.is_directory() ? "/" : "")] =
          entry.is_directory() ? "" : read_text(entry.path());
    }
    EXPECT_EQ(replay.left(base_), there);
  }

  struct Case {
    std::string name;
    size_t acknowledged = 0;  // transitions, at least, over all cuts that leave this
  };
  /// All that may be left, by what it is: of each prefix every combination of fates where there are few of them, and
  /// some by chance where there are many.
  void add_cases(size_t prefix, size_t acknowledged, size_t most) {
    constexpr std::array kOfWrites = {Fate::lost,       Fate::kept,      Fate::torn,
                                      Fate::torn_early, Fate::torn_late, Fate::zeroed};
    const auto play = [&](const auto& fate) {
      Replay replay(base_);
      replay.all_is_on_disk();
      for (size_t i = 0; i < prefix; ++i) replay.perform(operations_[i]);
      replay.files().lose_power_by(fate);
      return replay.left(base_);
    };
    std::vector<size_t> choices;  // of those that count
    play([&](const std::string& name, bool of_name) {
      if (counts(name, of_name)) choices.push_back(of_name ? 2 : kOfWrites.size());
      return Fate::kept;
    });
    size_t combinations = 1;
    for (const auto choice : choices) combinations = std::min(combinations * choice, most + 1);
    std::mt19937_64 random(prefix);
    for (size_t number = 0; number < std::min(combinations, most); ++number) {
      size_t rest = combinations > most ? random() : number;
      const auto others = kOfWrites[number % kOfWrites.size()];
      auto left = play([&](const std::string& name, bool of_name) {
        if (!counts(name, of_name)) return others;
        const size_t choice = of_name ? 2 : kOfWrites.size();
        return kOfWrites[std::exchange(rest, rest / choice) % choice];
      });
      ++played_;
      auto& found = cases_[std::move(left)];
      // What is there is to be opened as after the latest of the cuts that may have left it.
      if (found.name.empty() || acknowledged >= found.acknowledged)
        found = {fmt::format("after operation {} ({} {}), fates {}", prefix,
                             prefix == 0 ? ' ' : static_cast<char>(operations_[prefix - 1].kind),
                             prefix == 0 ? "" : operations_[prefix - 1].path, number),
                 acknowledged};
    }
  }

  void find_cases(size_t most) {
    size_t acknowledged = 0;
    for (size_t prefix = 0; prefix <= operations_.size(); ++prefix) {
      if (prefix > 0 && operations_[prefix - 1].kind == Kind::mark)
        acknowledged = static_cast<size_t>(operations_[prefix - 1].at);
      // Between two operations without a mark, the later prefix says the same and more.
      add_cases(prefix, acknowledged, most);
    }
  }

  /// Another boot, a minute later.
  void put(const Left& left) {
    fs::remove_all(base_);
    fs::create_directories(base_);
    for (const auto& [path, bytes] : left) {
      if (path.ends_with('/')) {
        fs::create_directory(path);
        fs::permissions(path, fs::perms::owner_all);
        continue;
      }
      auto text = bytes;
      const auto at = text.find(boot_id());
      if (path.ends_with("/owner") && at != std::string::npos) text[at] = text[at] == 'x' ? 'y' : 'x';
      testing::write_text(path, text);
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(1));
    }
  }

  /// The acknowledged transitions are there, and the next one where it was on its way; then work goes on.
  std::string trouble_of(const Left& left, size_t acknowledged) {
    put(left);
    std::string trouble;
    try {
      const EmbeddedRedis redis(root_, 0.0);
      Client client(redis);
      const auto found = client.dump();
      size_t state = acknowledged;
      while (state < states_.size() && states_[state] != found) ++state;
      if (state == states_.size()) trouble = difference(states_[acknowledged], found);
      else if (state > acknowledged + 1) trouble = fmt::format("{} transitions too many", state - acknowledged);
      if (!client.queue.submit(job_named("ffffffffffffffff"))) trouble = "a new job was there before";
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    for (const pid_t pid : guardians(root_)) kill(pid, SIGTERM);
    if (!all_gone(root_)) trouble += " and the server does not end";
    return trouble;
  }

  const fs::path base_ = fs::canonical(scratch_.path()) / "disk";
  std::vector<Dump> states_;  // after so many transitions
  int64_t jobs_ = 0;
  std::vector<FileOperation> operations_;
  std::map<Left, Case> cases_;
  size_t played_ = 0;
};

/// FORETIME_POWER_LOSSES: how many of the states are opened, drawn by the seed FORETIME_SEED; "all": every one.
// Promise redis/embedded-power-loss
TEST_F(EmbeddedPowerLoss, AtAnyMomentLeavesAllThatWasAcknowledgedAndNothingHalf) {
  constexpr size_t kMostOfAPrefix = 400, kOrdinary = 150;
  const char* asked = std::getenv("FORETIME_POWER_LOSSES");
  const char* seed = std::getenv("FORETIME_SEED");
  root_ = base_ / "runs";
  fs::create_directories(base_);
  record();
  if (HasFatalFailure()) return;
  check_recording();
  find_cases(kMostOfAPrefix);
  std::vector<std::pair<const Left*, const Case*>> chosen;
  for (const auto& [left, found] : cases_) chosen.emplace_back(&left, &found);
  std::mt19937_64 random(seed == nullptr ? 1 : std::stoull(seed));
  std::shuffle(chosen.begin(), chosen.end(), random);
  if (asked == nullptr || std::string_view(asked) != "all")
    chosen.resize(std::min(chosen.size(), asked == nullptr ? kOrdinary : std::stoul(asked)));
  std::map<std::string, int> troubles;
  size_t bad = 0;
  for (const auto& [left, found] : chosen) {
    const auto trouble = trouble_of(*left, found->acknowledged);
    if (trouble.empty()) continue;
    if (++bad > 5) continue;
    std::string names;
    for (const auto& [path, bytes] : *left) names += fmt::format("  {} {}\n", path, bytes.size());
    ADD_FAILURE() << found->name << ", " << found->acknowledged << " transitions acknowledged: " << trouble << "\n"
                  << names;
  }
  fmt::print("{} operations, {} transitions, {} cuts, {} states, {} opened, {} bad\n", operations_.size(),
             states_.size() - 1, played_, cases_.size(), chosen.size(), bad);
}

}  // namespace
}  // namespace foretime::jobs
