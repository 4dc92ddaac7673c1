#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "data/files/npy.h"
#include "data/files/zip_file.h"

namespace foretime::data {

template <class T>
concept NpyNumber = (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) || std::floating_point<T>;

/// One array of an archive, read piece by piece in the order of the file, so that no array need fit into memory.
///
/// Integers are read into any integer type that holds their values, booleans into any integer type as 0 and 1, and
/// floats into float or double; doubles read into float are rounded. All else is refused, naming both types.
class NpyStream {
 public:
  /// Reads the header. Throws DataError where it is malformed (see parse_npy_header) or asks for another number of
  /// bytes than the zip directory records: after that, allocating for the whole shape is safe.
  NpyStream(const ZipArchive& archive, const ZipEntry& entry);

  const NpyHeader& header() const { return header_; }
  const std::string& origin() const { return origin_; }
  int64_t remaining() const { return remaining_; }  // elements not read yet

  /// Reads the next `count` elements. A plain copy where T is the type in the file.
  template <NpyNumber T>
  void read(T* out, int64_t count);
  /// Reads the next `count` texts as UTF-8, without the NULs that pad them.
  std::vector<std::string> read_text(int64_t count);
  /// Call after the last element: checks the entry's size and CRC-32.
  void finish() { reader_.finish(); }

  /// All that is left, in C order whatever the order in the file, and `finish`. Call it on a stream of which nothing is
  /// read.
  template <NpyNumber T>
  std::vector<T> read_all();

 private:
  void claim(int64_t count);

  std::string origin_;
  ZipReader reader_;
  NpyHeader header_;
  int64_t remaining_ = 0;
};

}  // namespace foretime::data
