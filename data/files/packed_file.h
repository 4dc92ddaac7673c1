#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "data/files/packed_layout.h"
#include "data/graphs/group.h"

/// What the packed format's readers and its writer share. Others include data/packed.h.
namespace foretime::data::packed {

/// Of all bytes before a record's last field, its checksum.
uint64_t own_checksum(const Preamble& preamble);
uint64_t own_checksum(const GroupRecord& record);

/// An open file, by its name in messages.
class File {
 public:
  /// Opens to read. Throws DataError.
  explicit File(const std::filesystem::path& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  /// Reads exactly so many bytes. Throws DataError.
  void read(void* to, uint64_t bytes, uint64_t offset, const char* field) const;
  [[noreturn]] void fail(const std::string& field, const std::string& what) const;

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// A collection whose preamble has been checked. All throw DataError.
class CollectionFile {
 public:
  explicit CollectionFile(const std::filesystem::path& path);

  const File& file() const { return file_; }
  const Preamble& preamble() const { return preamble_; }
  /// The directory's bytes, checked as a whole.
  std::vector<char> directory() const;
  /// Checks a record for itself: its checksum, that its sections lie inside the file, that no size is negative.
  void check(const GroupRecord& record, uint64_t index) const;
  /// Reads and checks one record, and its name.
  GroupRecord record(uint64_t index, std::string& name) const;

 private:
  File file_;
  Preamble preamble_{};
};

/// The bytes of some sections of a group, mapped for as long as an array of them lives.
class Sections {
 public:
  /// Maps the range that sections `first` … `last` span. `file` must outlive this object, not the arrays. Without
  /// `verified` checksums are compared when a section is asked for; with it, the caller has just written them.
  Sections(const File& file, const GroupRecord& record, std::string name, Section first, Section last,
           bool verified = false);

  /// Throws DataError where the checksum is wrong.
  std::span<const std::byte> bytes(Section section, const char* field) const;
  /// `count` × `width` values, or as many as there are where `count` < 0. Throws DataError where the size or the
  /// checksum is wrong.
  template <class T>
  Array<T> array(Section section, const char* field, int64_t count, int64_t width = 1) const {
    const auto raw = checked_bytes(section, field, count, width, sizeof(T));
    return Array<T>(std::span(reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)), mapping_);
  }
  Array<std::byte> whole(Section section, const char* field) const { return {bytes(section, field), mapping_}; }
  std::shared_ptr<const void> keeper() const { return mapping_; }
  [[noreturn]] void fail(const char* field, const std::string& what) const;

 private:
  class Mapping;
  std::span<const std::byte> checked_bytes(Section section, const char* field, int64_t count, int64_t width,
                                           uint64_t item) const;

  const File& file_;
  const GroupRecord& record_;
  std::string name_;
  bool verified_;
  std::shared_ptr<const Mapping> mapping_;
};

/// The group that a record describes, not validated. Throws DataError where sizes do not fit together or checksums are
/// wrong.
Group read_group(const File& file, const GroupRecord& record, const std::string& name, bool verified = false);

}  // namespace foretime::data::packed
