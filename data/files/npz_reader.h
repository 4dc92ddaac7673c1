#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/files/inflate.h"
#include "data/files/npy.h"

struct zip;
struct zip_file;

namespace foretime::data {

/// Describes an entry according to the central directory of a zip archive. Not trusted until the entry has been read to
/// its end.
struct ZipEntry {
  std::string name;
  uint64_t index = 0;
  uint64_t size = 0;             // bytes, inflated
  uint64_t compressed_size = 0;  // bytes in the archive
  uint32_t crc = 0;              // CRC-32 of the inflated bytes
  bool deflated = false;         // false: stored
};

/// Reads an entry from its start. Must not outlive its archive.
class ZipReader {
 public:
  /// Reads exactly `count` bytes. Throws DataError if the entry ends before or cannot be inflated.
  void read(void* out, uint64_t count);
  /// Checks the end of the entry; called after the last byte. Throws DataError if bytes are left or the CRC-32 or size
  /// differs from the recorded one.
  void finish();
  uint64_t position() const { return position_; }
  const ZipEntry& entry() const { return entry_; }

 private:
  friend class ZipArchive;
  struct Close {
    void operator()(zip_file* file) const;
  };
  /// Reads from `file`, which gives the entry's bytes as stored in the archive.
  ZipReader(std::string origin, ZipEntry entry, zip_file* file);
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> found, Args&&... args) const {
    throw DataError("{}: {}", origin_, fmt::format(found, std::forward<Args>(args)...));
  }
  uint64_t read_raw(void* out, uint64_t count);
  uint64_t inflate_some(std::span<std::byte> out);

  std::string origin_;  // "file: entry name", prefix of messages
  ZipEntry entry_;
  std::unique_ptr<zip_file, Close> file_;
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
  std::optional<Inflater> inflater_;   // inflater for deflated entries
  std::vector<std::byte> buffer_;      // compressed bytes
  std::span<const std::byte> unread_;  // part of buffer_ that is not yet inflated
  bool ended_ = false;                 // the deflate stream has ended
};

/// Opens a zip archive for reading with libzip. Entries must be stored or deflated, not encrypted, and have distinct
/// names. An archive is used by one thread at a time.
///
/// Refuses a recorded size that deflate could not have produced before allocating memory for it: its largest expansion
/// is 1032 to 1 (zlib technical details), so memory is bounded by the size of the file.
class ZipArchive {
 public:
  /// Reads only the central directory. Throws DataError for a file that is missing, truncated or not a zip archive.
  explicit ZipArchive(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns the entry with this name; null if there is none.
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

template <class T>
concept NpyNumber = (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) || std::floating_point<T>;

/// Reads one array of an archive piece by piece in the order of the file, so that no array must fit into memory.
///
/// Integers are read into any integer type that holds their values, booleans into any integer type as 0 and 1, and
/// floats into float or double; doubles read into float are rounded. Any other combination is refused with both types
/// in the message.
class NpyStream {
 public:
  /// Reads the header. Throws DataError if it is malformed (parse_npy_header) or its size differs from the one in the
  /// zip directory: after that, allocating for the whole shape is safe.
  NpyStream(const ZipArchive& archive, const ZipEntry& entry);

  const NpyHeader& header() const { return header_; }
  const std::string& origin() const { return origin_; }
  int64_t remaining() const { return remaining_; }  // unread elements

  /// Reads the next `count` elements; a plain copy if T is the type in the file.
  template <NpyNumber T>
  void read(T* out, int64_t count);
  /// Reads the next `count` texts as UTF-8, without the NULs that pad them.
  std::vector<std::string> read_text(int64_t count);
  /// Checks the entry's size and CRC-32; called after the last element.
  void finish() { reader_.finish(); }

  /// Returns all elements in C order, whatever the order in the file, and calls `finish`. Nothing may have been read
  /// before.
  template <NpyNumber T>
  std::vector<T> read_all();

 private:
  /// Checks that `count` elements are left, and counts them as read. Throws DataError.
  void claim(int64_t count);

  std::string origin_;
  ZipReader reader_;
  NpyHeader header_;
  int64_t remaining_ = 0;
};

constexpr int64_t kAnySize = -1;

/// Describes the expected shape of an entry: sizes or kAnySize, and their text in messages, "(nodes, 140)".
struct ShapeRule {
  std::vector<int64_t> sizes;
  std::string words;
};

/// Opens a zip archive of NPY arrays (numpy.savez); entry names are given without ".npy".
class NpzReader {
 public:
  explicit NpzReader(std::filesystem::path path) : archive_(std::move(path)) {}

  const ZipArchive& archive() const { return archive_; }
  std::string origin(const std::string& name) const;  // "file: entry name", prefix of messages
  bool has(const std::string& name) const { return archive_.find(name + ".npy") != nullptr; }
  /// Throws DataError where the entry is missing, naming those that are there.
  NpyStream open(const std::string& name) const;
  /// Opens an entry and checks its shape.
  NpyStream open(const std::string& name, const ShapeRule& rule) const;
  /// Returns the size of dimension `dimension` of an entry, from its header alone.
  int64_t size(const std::string& name, const ShapeRule& rule, size_t dimension) const;
  /// Reads a whole entry in C order.
  template <NpyNumber T>
  std::vector<T> read(const std::string& name, const ShapeRule& rule) const {
    return open(name, rule).template read_all<T>();
  }
  std::vector<std::string> read_text(const std::string& name, const ShapeRule& rule) const;
  /// Returns the XXH64 of the entries' names, sizes and checksums, in the order of their names.
  uint64_t fingerprint() const;

 private:
  ZipArchive archive_;
};

}  // namespace foretime::data
