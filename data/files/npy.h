#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

struct zip;
struct zip_source;

/// Reads and writes the NPY format, versions 1, 2 and 3 (numpy, NEP 1 and numpy.lib.format): magic, version, header
/// length, a Python dict with descr, fortran_order and shape, then the elements.
namespace foretime::data {

enum class NpyKind : uint8_t { boolean, signed_integer, unsigned_integer, floating, text };

/// Describes an element type: bool of 1 byte, integers of 1, 2, 4, 8, IEEE floats of 2, 4, 8 bytes, UCS-4 text.
struct NpyType {
  NpyKind kind = NpyKind::floating;
  int64_t size = 0;  // bytes an element
  bool big_endian = false;

  std::string str() const;  // numpy's spelling: <f4, |u1, <U16
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;  // size of each dimension, 0 or more; empty: a single value
  int64_t header_bytes = 0;    // bytes before the first element, including the magic

  int64_t elements() const;  // product of the shape
  int64_t payload_bytes() const { return elements() * type.size; }
};

constexpr int64_t kNpyPrefixBytes = 12;  // bytes that give the header's length in any version

/// Returns the number of bytes before the first element, with the magic. `prefix` has the first `kNpyPrefixBytes` bytes
/// of the file. Throws DataError for a shorter prefix, a wrong magic, an unknown version, an empty header, or one of
/// more than 1 MiB. `origin` is the prefix of messages.
int64_t npy_header_bytes(std::string_view prefix, const std::string& origin);

/// Parses a header from the magic to the first element. Throws the errors of npy_header_bytes, and DataError for
/// another length than recorded, a malformed dict, an unsupported type, and a negative or too large shape.
NpyHeader parse_npy_header(std::string_view header, const std::string& origin);

/// Returns a header as numpy writes it, padded to a multiple of 64 bytes, in version 1 if it fits, otherwise in 2.
std::string format_npy_header(const NpyType& type, bool fortran_order, const std::vector<int64_t>& shape);

/// Returns a shape as Python prints it: "(372, 140)", "(372,)", "()".
std::string shape_text(const std::vector<int64_t>& shape);

/// Returns libzip's text for one of its error codes.
std::string zip_reason(int code);

enum class NpzCompression : uint8_t { stored, deflated, fast };  // fast: deflated at zlib's level 1

/// Writes an .npz for numpy and NpzReader. Holds a copy of each added array until close(), which writes the file under
/// a temporary name and renames it. A writer that was not closed writes nothing. An array's entry is NAME.npy.
class NpzWriter {
 public:
  /// Starts an archive. base/output_target.h recognises files by `comment`, which readers ignore. Throws DataError.
  explicit NpzWriter(std::filesystem::path path, NpzCompression compression = NpzCompression::deflated,
                     std::string_view comment = {});
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  /// Adds an array. `values` are its elements in C order, or in Fortran order if `fortran_order`. Throws DataError if
  /// the number of values differs from that of the shape, the name was added before, or close() was called.
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(const std::string& name, const std::vector<int64_t>& shape, std::span<const T> values,
           bool fortran_order = false) {
    const auto kind = std::is_same_v<T, bool>       ? NpyKind::boolean
                      : std::is_floating_point_v<T> ? NpyKind::floating
                      : std::is_signed_v<T>         ? NpyKind::signed_integer
                                                    : NpyKind::unsigned_integer;
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
  void add_array(const std::string& name, const NpyType& type, bool fortran_order, const std::vector<int64_t>& shape,
                 const void* data, size_t bytes);

  std::filesystem::path path_;
  NpzCompression compression_;
  zip* archive_ = nullptr;
  std::deque<std::string> entries_;  // libzip reads them in `close`
};

}  // namespace foretime::data
