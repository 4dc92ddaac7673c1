#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace foretime::testing {

/// One operation on a folder's files, as the kernel did it.
struct FileOperation {
  /// What `open` made or emptied is in `at`: 1: the file is new, 2: it was emptied.
  enum class Kind : char {
    open = 'o',
    write = 'w',
    sync = 's',
    rename = 'r',
    unlink = 'u',
    folder = 'd',
    truncate = 't',
    mark = 'm'
  };
  Kind kind = Kind::mark;
  uint64_t file = 0;        // inode: of an open file or folder
  int64_t at = 0;           // offset of a write, size of a truncation, number of a mark
  std::string path, other;  // absolute; other: the new name of a rename
  std::string bytes;        // of a write
};

/// Records what this process and the programs that it starts do to the files of a folder, in the order in which it was
/// done, as ALICE (Pillai et al., OSDI 2014) does for whole programs. Whoever uses it links foretime_file_recorder,
/// whose functions take the place of the C library's (open, write, fsync, rename, ... and files of stdio that are
/// written), and which LD_PRELOAD puts before those of started programs.
class FileRecorder {
 public:
  /// `log` must not lie in the folder. Files with a name of `without` are left out, such as a program's log.
  FileRecorder(const std::filesystem::path& folder, const std::filesystem::path& log, const std::string& without);
  ~FileRecorder();
  FileRecorder(const FileRecorder&) = delete;
  FileRecorder& operator=(const FileRecorder&) = delete;

  /// Notes a moment between the operations.
  void mark(int64_t number);
  std::vector<FileOperation> operations() const;

 private:
  std::filesystem::path log_;
};

}  // namespace foretime::testing
