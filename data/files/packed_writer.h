#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/checksum.h"
#include "data/files/packed_file.h"

namespace foretime::data::packed {

/// A collection being written: bytes go to a file beside `file`, which takes its name in `commit`. All throw
/// FileError.
class Output {
 public:
  explicit Output(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_.path(); }
  /// Where the bytes are before `commit`.
  const std::filesystem::path& aside() const { return file_.aside(); }
  const std::vector<GroupRecord>& records() const { return records_; }

  /// A section is written in any number of pieces; one without bytes leaves no trace.
  void begin_section();
  void append(std::span<const std::byte> bytes);
  SectionRecord end_section();
  template <class T>
  SectionRecord section(std::span<const T> values) {
    begin_section();
    append(std::as_bytes(values));
    return end_section();
  }
  /// Ends a group whose sections have been written.
  void add_record(GroupRecord record, const std::string& name);
  /// Copies group `member` of another collection, sections and record, without looking at its contents.
  void copy_group(const CollectionFile& from, uint64_t member);

  /// After it, others that open `aside` read what has been written so far.
  void flush() { file_.flush(); }
  /// Writes the directory, syncs, and renames into place.
  void commit();

 private:
  void write(const void* bytes, size_t count);
  void pad();
  void copy_bytes(const File& from, uint64_t offset, uint64_t bytes);

  AtomicFile file_;
  uint64_t position_ = 0;
  SectionRecord section_{};
  Checksum checksum_;
  std::vector<GroupRecord> records_;
  std::string names_;
};

}  // namespace foretime::data::packed
