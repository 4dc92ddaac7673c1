#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/files/inflate.h"

struct zip;
struct zip_file;

namespace foretime::data {

/// What the central directory of a zip archive says of a entry. It is a claim until the entry has been read to its
/// end.
struct ZipEntry {
  std::string name;
  uint64_t index = 0;
  uint64_t size = 0;             // bytes, inflated
  uint64_t compressed_size = 0;  // bytes in the archive
  uint32_t crc = 0;              // CRC-32 of the inflated bytes
  bool deflated = false;         // else stored
};

/// A entry being read from its start. It must not outlive its archive.
class ZipReader {
 public:
  /// Reads exactly `count` bytes. Throws DataError where the entry ends before, or does not inflate.
  void read(void* out, uint64_t count);
  /// Call after the last byte: throws DataError where the entry goes on, or where its CRC-32 or size is not the one
  /// recorded.
  void finish();
  uint64_t position() const { return position_; }
  const ZipEntry& entry() const { return entry_; }

 private:
  friend class ZipArchive;
  struct Close {
    void operator()(zip_file* file) const;
  };
  /// `file` gives the entry's bytes as they stand in the archive.
  ZipReader(std::string origin, ZipEntry entry, zip_file* file);
  [[noreturn]] void fail(const std::string& found) const;
  uint64_t read_raw(void* out, uint64_t count);
  uint64_t inflate_some(std::span<std::byte> out);

  std::string origin_;  // "file: entry name", for messages
  ZipEntry entry_;
  std::unique_ptr<zip_file, Close> file_;
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
  std::optional<Inflater> inflater_;   // of a deflated entry
  std::vector<std::byte> buffer_;      // compressed bytes
  std::span<const std::byte> unread_;  // of them
  bool ended_ = false;                 // the deflate stream has
};

/// A zip archive opened for reading by libzip. Entries must be stored or deflated, not encrypted, and have distinct
/// names. An archive is for one thread at a time.
///
/// A recorded size is refused before anything is allocated for it where deflate could not have produced it: its largest
/// expansion is 1032 to 1 (zlib technical details), so memory is bounded by the size of the file.
class ZipArchive {
 public:
  /// Reads the central directory only. Throws DataError for a file that is missing, truncated or not a zip archive.
  explicit ZipArchive(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Null where there is none of that name.
  const ZipEntry* find(const std::string& name) const;
  ZipReader open(const ZipEntry& entry) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  std::filesystem::path path_;
  std::unique_ptr<zip, Close> archive_;
  std::vector<ZipEntry> entries_;
};

}  // namespace foretime::data
