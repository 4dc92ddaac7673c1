#include "coordinator/best_checkpoint.h"

#include <functional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/message.h"

namespace foretime::coordinator {
namespace {

namespace fs = std::filesystem;

/// Returns the newest intact checkpoint other than `damaged`; nullopt if there is none.
std::optional<StoredCheckpoint> newest_intact(const CheckpointStore& store, std::optional<int64_t> damaged) {
  for (auto steps = store.steps(); !steps.empty(); steps.pop_back()) {
    if (steps.back() == damaged) continue;
    try {
      return store.read(steps.back());
    } catch (const Error&) {
      // An older one may be intact.
    }
  }
  return std::nullopt;
}

/// Calls `replace`, which may throw, if another checkpoint of a run is read in place of a damaged or missing one.
StoredCheckpoint read_best(const fs::path& path,
                           const std::function<void(const std::string& damage, const fs::path& instead)>& replace) {
  const auto root = folder_of_checkpoints(path);
  if (!root) return read_checkpoint(path);
  const CheckpointStore store(*root);
  std::optional<int64_t> tried;
  for (;;) {
    std::optional<int64_t> wanted;
    try {
      wanted = store.noted_best();
      const auto steps = store.steps();
      // A best one is noted before it is written: where it is newer than all, it has not been written yet, or ever.
      if (!steps.empty() && wanted.value_or(INT64_MAX) > steps.back()) wanted = steps.back();
      if (!wanted) return read_checkpoint(path);  // throws, since there is none
      return store.read(*wanted);
    } catch (const StorageError&) {
      throw;
    } catch (const NewerFormat&) {
      throw;
    } catch (const Error& error) {
      if (wanted && wanted != tried) {  // a training that runs may have put another one in its place meanwhile
        tried = wanted;
        continue;
      }
      auto found = newest_intact(store, wanted);
      if (!found) throw;
      replace(error.what(), found->folder);
      return *std::move(found);
    }
  }
}

}  // namespace

StoredCheckpoint read_best_or_newest(const fs::path& path) {
  return read_best(path, [](const std::string& damage, const fs::path& instead) {
    print_message("warning: {}; the newest intact checkpoint is used in its place: {}\n", damage, instead.string());
  });
}

StoredCheckpoint read_best_only(const fs::path& path) {
  return read_best(path, [](const std::string& damage, const fs::path& instead) {
    throw RunError("{}; the newest intact checkpoint is {}: name that one to take it", damage, instead.string());
  });
}

}  // namespace foretime::coordinator
