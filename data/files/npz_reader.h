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

/// Describes an entry by the central directory of a zip archive; ZipReader::finish checks it against the entry.
struct ZipEntry {
  std::string name;
  uint64_t index = 0;            // place in the archive
  uint64_t size = 0;             // bytes, inflated
  uint64_t compressed_size = 0;  // bytes in the archive
  uint32_t crc = 0;              // CRC-32 of the inflated bytes
  bool deflated = false;         // false: stored
};

/// Reads the inflated bytes of an entry in order. Must not outlive its archive. Throws DataError or StorageError.
class ZipReader {
 public:
  /// Reads the next `count` bytes. Throws DataError if the entry ends before or cannot be inflated.
  void read(void* out, uint64_t count);
  /// Checks the entry after its last byte. Throws DataError for further bytes, or another CRC-32 or size than recorded.
  void finish();
  uint64_t position() const { return position_; }  // bytes read so far
  const ZipEntry& entry() const { return entry_; }

 private:
  friend class ZipArchive;
  struct Close {
    void operator()(zip_file* file) const;
  };
  /// Takes over `file`, which reads the entry's bytes as stored in the archive. `origin` is the prefix of messages.
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
/// An entry whose recorded size is above what deflate can produce (1032 times the compressed bytes, by zlib's technical
/// details) is refused, so memory for the entries is bounded by the size of the file.
class ZipArchive {
 public:
  /// Reads only the central directory. Throws DataError for a file that is missing, truncated or not a zip archive, and
  /// for an entry that breaks these rules, and StorageError if the storage fails.
  explicit ZipArchive(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns the entry with this name; null if there is none.
  const ZipEntry* find(const std::string& name) const;
  ZipReader open(const ZipEntry& entry) const;  // throws DataError or StorageError

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
/// floats into float or double; doubles read into float are rounded. A value that does not fit, any other combination
/// of types, and the faults of ZipReader::read throw DataError.
class NpyStream {
 public:
  /// Reads the header. Throws DataError if it is malformed (parse_npy_header) or if the array does not have the size
  /// recorded in the zip directory; allocating memory for the whole array is therefore safe.
  NpyStream(const ZipArchive& archive, const ZipEntry& entry);

  const NpyHeader& header() const { return header_; }
  const std::string& origin() const { return origin_; }  // "file: entry name", prefix of messages
  int64_t remaining() const { return remaining_; }       // unread elements

  /// Reads the next `count` elements. Throws DataError if fewer are left.
  template <NpyNumber T>
  void read(T* out, int64_t count);
  /// Reads the next `count` texts as UTF-8, without padding NULs. Throws DataError for other types, for
  /// characters that are not Unicode, or if fewer are left.
  std::vector<std::string> read_text(int64_t count);
  /// Checks the entry's size and CRC-32 (ZipReader::finish); called after the last element.
  void finish() { reader_.finish(); }

  /// Returns all elements in C order, whatever the order in the file, and calls `finish`. Must be the first read.
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

/// Describes the expected shape of an entry.
struct ShapeRule {
  std::vector<int64_t> sizes;  // size of each dimension, or kAnySize
  std::string words;           // the shape in messages, such as "(nodes, 140)"
};

/// Reads a zip archive of NPY arrays (numpy.savez). Entry names are given without ".npy". The functions that read an
/// entry throw DataError if it is missing, damaged or of another shape than `rule`, and StorageError.
class NpzReader {
 public:
  explicit NpzReader(std::filesystem::path path) : archive_(std::move(path)) {}

  const ZipArchive& archive() const { return archive_; }
  std::string origin(const std::string& name) const;  // "file: entry name", prefix of messages
  bool has(const std::string& name) const { return archive_.find(name + ".npy") != nullptr; }
  NpyStream open(const std::string& name) const;  // any shape
  /// Opens an entry and checks its shape.
  NpyStream open(const std::string& name, const ShapeRule& rule) const;
  /// Returns the size of dimension `dimension` (from 0) of an entry after checking its shape; reads no elements.
  int64_t size(const std::string& name, const ShapeRule& rule, size_t dimension) const;
  /// Reads a whole entry in C order.
  template <NpyNumber T>
  std::vector<T> read(const std::string& name, const ShapeRule& rule) const {
    return open(name, rule).template read_all<T>();
  }
  std::vector<std::string> read_text(const std::string& name, const ShapeRule& rule) const;
  /// Returns the XXH64 of the entries' names, sizes and CRC-32s in the zip directory, in the order of the names.
  uint64_t fingerprint() const;

 private:
  ZipArchive archive_;
};

}  // namespace foretime::data
