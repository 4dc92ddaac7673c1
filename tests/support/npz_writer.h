#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/no_copy.h"
#include "data/files/npy.h"

struct zip;
struct zip_source;

namespace foretime::testing {

/// Returns a header as numpy writes it, padded to a multiple of 64 bytes, in version 1 if it fits, otherwise in 2.
std::string format_npy_header(const data::NpyType& type, bool fortran_order, const std::vector<int64_t>& shape);

enum class NpzCompression : uint8_t { stored, deflated, fast };  // fast: deflated at zlib's level 1

/// Writes an .npz for numpy and NpzReader. Holds a copy of each added array until close(), which writes the file under
/// a temporary name and renames it. A writer that was not closed writes nothing. An array's entry is NAME.npy.
class NpzWriter : NoCopy {
 public:
  /// Starts an archive. Throws DataError.
  explicit NpzWriter(std::filesystem::path path, NpzCompression compression = NpzCompression::deflated);
  ~NpzWriter();

  /// Adds an array. `values` are its elements in C order, or in Fortran order if `fortran_order`. Throws DataError if
  /// the number of values differs from that of the shape, or the name was added before. Must not follow close().
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(const std::string& name, const std::vector<int64_t>& shape, std::span<const T> values,
           bool fortran_order = false) {
    const auto kind = std::is_same_v<T, bool>       ? data::NpyKind::boolean
                      : std::is_floating_point_v<T> ? data::NpyKind::floating
                      : std::is_signed_v<T>         ? data::NpyKind::signed_integer
                                                    : data::NpyKind::unsigned_integer;
    add_array(name, {kind, sizeof(T), false}, fortran_order, shape, values.data(), values.size_bytes());
  }
  /// Adds an array as add() above does, from a vector.
  template <class T>
  void add(const std::string& name, const std::vector<int64_t>& shape, const std::vector<T>& values,
           bool fortran_order = false) {
    add(name, shape, std::span<const T>(values), fortran_order);
  }
  /// Adds a one-dimensional array of texts. Throws the errors of add(), and DataError for characters outside of ASCII.
  void add_text(const std::string& name, const std::vector<std::string>& values);
  /// Adds an entry named exactly `entry` with arbitrary bytes. Throws DataError for a repeated name. Must not follow
  /// close().
  void add_bytes(const std::string& entry, std::string bytes);
  /// Adds an entry named exactly `entry`, whose bytes libzip reads from `source` in close(). Takes over `source`, which
  /// was made with archive(); the data behind it must live until close(). Throws DataError if libzip refuses the entry.
  void add_source(const std::string& entry, zip_source* source);
  zip* archive() const { return archive_; }  // libzip's archive; null after close()
  /// Writes the file; later calls do nothing. Throws StorageError if the storage fails, DataError for other reasons.
  void close();

 private:
  void add_array(const std::string& name, const data::NpyType& type, bool fortran_order,
                 const std::vector<int64_t>& shape, const void* data, size_t bytes);

  std::filesystem::path path_;
  NpzCompression compression_;
  zip* archive_ = nullptr;
  std::deque<std::string> entries_;  // libzip reads them in `close`
};

}  // namespace foretime::testing
