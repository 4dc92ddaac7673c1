#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "jobs/error.h"
#include "jobs/redis/append_only.h"
#include "jobs/redis/embedded_redis.h"
#include "jobs/redis/prepared_store.h"
#include "jobs/redis/store_record.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataFiles[] = {
    "appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof",
    "appendonly.aof.3.incr.aof", "appendonly.aof.3.base.aof", "appendonly.aof.5.incr.aof"};
constexpr const char* kOddNames[] = {"appendonly.aof.99999999999999999999.incr.aof",
                                     "appendonly.aof.0.incr.aof",
                                     "appendonly.aof..incr.aof",
                                     "temp-appendonly.aof.manifest",
                                     "temp-rewriteaof-1.aof",
                                     "x.incr.aof",
                                     "../private",
                                     "appendonly.aof.1.incr.aof "};
constexpr const char* kPrivate = "the owner's";

using Contents = std::map<std::string, std::string>;

std::string contents_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// ROOT/.redis, the folder of an embedded Redis, filled as an input says. ROOT/private belongs to somebody else.
class StoreScene {
 public:
  StoreScene() : root_(fs::temp_directory_path() / ("foretime-fuzz-store-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(aof());
    fs::permissions(folder(), fs::perms::owner_all);
    std::ofstream(root_ / "private") << kPrivate;
  }
  ~StoreScene() { fs::remove_all(root_); }
  StoreScene(const StoreScene&) = delete;
  StoreScene& operator=(const StoreScene&) = delete;

  const fs::path& root() const { return root_; }
  fs::path folder() const { return root_ / ".redis"; }
  fs::path aof() const { return folder() / "appendonlydir"; }

  void fill(Choices& choices) {
    for (const char* name : kDataFiles)
      if (choices.flag()) place(choices, aof() / name);
    if (choices.below(4) == 0) place(choices, aof() / choices.of(kOddNames));
    if (choices.below(8) == 0) place(choices, folder() / "temp-rewriteaof-1.aof");
    if (choices.below(8) == 0) return place(choices, folder() / jobs::kAofManifest);
    std::string manifest;
    for (size_t lines = choices.below(6); lines > 0; --lines) {
      manifest += std::string("file ") + (choices.below(8) == 0 ? choices.of(kOddNames) : choices.of(kDataFiles));
      manifest += " seq " + std::to_string(choices.below(8) == 0 ? choices.number() : choices.below(6));
      manifest += std::string(" type ") + (choices.below(8) == 0 ? "x"
                                           : choices.flag()      ? "i"
                                           : choices.flag()      ? "b"
                                                                 : "h");
      manifest += choices.below(12) == 0 ? " more" : "\n";
    }
    std::ofstream(folder() / jobs::kAofManifest, std::ios::binary) << manifest;
  }

  /// What a failing disk, a backup or a person may do to the folder.
  void damage(Choices& choices) {
    for (size_t count = choices.below(4); count > 0; --count) {
      const auto file = choices.below(4) == 0
                            ? folder() / (choices.flag() ? jobs::kAofManifest : jobs::kStoreRecordFile)
                            : aof() / choices.of(kDataFiles);
      std::error_code failure;
      if (!fs::is_regular_file(fs::symlink_status(file, failure))) continue;
      auto bytes = contents_of(file);
      switch (choices.below(4)) {
        case 0: fs::remove(file); continue;
        case 1: bytes.resize(bytes.size() - choices.below(bytes.size() + 1)); break;
        case 2:
          if (!bytes.empty()) bytes[choices.below(bytes.size())] ^= static_cast<char>(1 + choices.below(255));
          break;
        default:
          bytes +=
              choices.flag() ? std::string(choices.take(choices.below(40))) : std::string(choices.below(5000), '\0');
      }
      std::ofstream(file, std::ios::binary) << bytes;
    }
    if (choices.below(16) == 0) fs::remove_all(aof());
  }

  Contents contents() const {
    Contents all;
    std::error_code failure;
    for (fs::directory_iterator at(aof(), failure), end; !failure && at != end; at.increment(failure))
      if (at->is_regular_file(failure) && !at->is_symlink(failure))
        all[at->path().filename()] = contents_of(at->path());
    return all;
  }

 private:
  void place(Choices& choices, const fs::path& path) {
    std::error_code failure;
    switch (choices.below(12)) {
      case 0: return fs::create_symlink(root_ / "private", path, failure);
      case 1: ::mkfifo(path.c_str(), 0600); return;
      case 2: fs::create_directories(path, failure); return;
      case 3:
        std::ofstream(path, std::ios::binary)
            << choices.take(choices.below(20)) << std::string(choices.below(9000), '\0');
        return;
      default: std::ofstream(path, std::ios::binary) << choices.take(choices.below(60));
    }
  }

  fs::path root_;
};

/// Returns whether the folder was prepared. Nothing but a failure of the queue may be thrown.
template <class Call>
bool works(const Call& call) {
  try {
    call();
    return true;
  } catch (const jobs::JobsError& error) {
    require(std::strlen(error.what()) > 0, "a refusal has a message", "");
    return false;
  }
}

/// No file lost anything but zero bytes at its end.
void expect_kept(const Contents& before, const Contents& after) {
  for (const auto& [name, bytes] : before) {
    if (name == fs::path(jobs::kAofManifest).filename() || name.starts_with("temp-")) continue;
    const auto found = after.find(name);
    require(found != after.end() && bytes.starts_with(found->second) &&
                bytes.find_first_not_of('\0', found->second.size()) == std::string::npos,
            "preparing a store keeps what its files hold", name.c_str());
  }
}

}  // namespace

void run_store(std::string_view bytes) {
  Choices choices(bytes);
  StoreScene scene;
  scene.fill(choices);
  const jobs::EmbeddedFolder folder(scene.root());
  if (choices.below(4) != 0) {
    jobs::StoreRecord record;
    if (record.measure(folder.descriptor())) record.save(folder.descriptor());
  } else if (choices.flag()) {
    std::ofstream(scene.folder() / jobs::kStoreRecordFile, std::ios::binary)
        << (choices.flag() ? "foretime-store 1\n" : "") << choices.take(choices.below(100));
  }
  scene.damage(choices);
  const auto before = scene.contents();
  const bool nothing_lost = works([&] { jobs::check_nothing_lost(folder); });
  expect_kept(before, scene.contents());
  const bool accept_loss = choices.flag();
  std::optional<jobs::PreparedStore> prepared;
  if (works([&] { prepared = jobs::prepare_append_only(folder, accept_loss); })) {
    require(accept_loss || (nothing_lost && prepared->accepted_losses.empty()), "a loss is never accepted unasked",
            prepared->accepted_losses.empty() ? "" : prepared->accepted_losses.front().c_str());
    require(works([&] { prepared = jobs::prepare_append_only(folder, false); }) && prepared->accepted_losses.empty(),
            "a prepared store is complete", "");
  }
  expect_kept(before, scene.contents());
  require(contents_of(scene.root() / "private") == kPrivate, "a store changes nothing outside of its folder", "");
}

}  // namespace foretime::fuzz
