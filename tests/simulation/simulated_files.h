#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"

namespace foretime::simulation {

/// A file system in memory that tells what is on disk from what is only in the page cache, so that a loss of power can
/// be played through: what was written since the last sync of a file, and the names that changed since the last sync of
/// their folder, may be there or not, in any combination, and a write may be there in part. That is what POSIX allows;
/// journalling file systems keep more. A rename, an exchange or a removal is there whole or not at all.
///
/// Source: Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), the abstract persistence model.
class SimulatedFiles final : public Files {
 public:
  SimulatedFiles();
  ~SimulatedFiles() override;

  std::unique_ptr<OutputFile> open(const Path& path, Open how) override;
  std::string read(const Path& path) override;
  bool exists(const Path& path) override;
  bool is_folder(const Path& path) override;
  std::vector<Path> list(const Path& folder) override;
  void create_folders(const Path& path) override;
  bool create_folder(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  bool exchange(const Path& a, const Path& b) override;
  void remove(const Path& path) override;
  void truncate(const Path& path, uint64_t bytes);
  void sync_folder(const Path& path) override;

  /// Called before each operation: an errno that it answers is that operation's failure; kDead: whoever asks is dead,
  /// and nothing happens. `bytes` of a write.
  static constexpr int kDead = -1;
  using Fault = std::function<int(const char* operation, const Path& path, size_t bytes)>;
  void fail_by(Fault fault) { fault_ = std::move(fault); }
  /// Bytes that all files together may have; a write beyond it is ENOSPC after as much as fits.
  void set_capacity(uint64_t bytes) { capacity_ = bytes; }
  uint64_t used() const;
  /// From here on sync() of a file does nothing, as where somebody forgot to call it.
  void forget_syncs() { forgets_syncs_ = true; }
  int64_t operations() const { return operations_; }

  /// What a loss of power does to each write and each change of names that was not synced. torn: half of a write is
  /// there, torn_early: its first byte, torn_late: all but its last one, zeroed: as many zeros; a change of names is
  /// lost by each of them.
  enum class Fate { lost, kept, torn, torn_early, torn_late, zeroed };
  /// Asked once for each, oldest first.
  void lose_power(const std::function<Fate()>& fate);
  /// With the file's name, and whether it is a name that changed.
  void lose_power_by(const std::function<Fate(const std::string& name, bool of_name)>& fate);
  /// All files with their contents, for comparisons.
  std::map<std::string, std::string> contents() const;

 private:
  struct Node;
  struct Write {
    uint64_t offset;
    std::string bytes;
    bool truncate;  // to `offset` bytes, before
  };
  struct NameChange {
    std::shared_ptr<Node> folder;
    std::string name;
    std::shared_ptr<Node> node;  // empty: the name goes
  };
  using Group = std::vector<NameChange>;
  class Writer;

  /// False: nothing must happen.
  bool check(const char* operation, const Path& path, size_t bytes = 0);
  std::shared_ptr<Node> find(const Path& path) const;
  std::shared_ptr<Node> folder_of(const Path& path, const char* doing) const;
  void change(Group group);
  static void apply(const Group& group, bool on_disk);
  static void lose(Node& node, const Write& write, Fate fate);
  void collect(const Node& node, const std::string& path, std::map<std::string, std::string>& found) const;

  std::shared_ptr<Node> root_;
  std::vector<Group> unsynced_;
  Fault fault_;
  uint64_t capacity_ = UINT64_MAX;
  int64_t operations_ = 0;
  bool forgets_syncs_ = false;
};

}  // namespace foretime::simulation
