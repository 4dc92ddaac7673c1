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

/// Describes an element type: bool of 1 byte, integers of 1, 2, 4, 8 bytes, IEEE floats of 2, 4 or 8 bytes, text of
/// UCS-4 characters.
struct NpyType {
  NpyKind kind = NpyKind::floating;
  int64_t size = 0;  // bytes an element
  bool big_endian = false;

  std::string str() const;  // numpy's spelling: <f4, |u1, <U16
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;  // not negative; the product of all, times the element size, fits into 63 bits
  int64_t header_bytes = 0;    // bytes before the first element, including the magic

  int64_t elements() const;
  int64_t payload_bytes() const { return elements() * type.size; }
};

constexpr int64_t kNpyPrefixBytes = 12;  // bytes that give the header's length in any version

/// Returns the number of bytes from the magic to the first element. `prefix` has the first `kNpyPrefixBytes` of the
/// file (shorter files are refused). Throws DataError for a wrong magic, an unknown version, or a header of more than 1
/// MiB. `origin` is the prefix of messages.
int64_t npy_header_bytes(std::string_view prefix, const std::string& origin);

/// Parses a whole header, magic included. Throws DataError for a malformed dict, an unsupported type, negative
/// dimensions, and shapes whose size overflows.
NpyHeader parse_npy_header(std::string_view header, const std::string& origin);

/// Returns a header as numpy writes it, padded to 64 bytes; version 1 if the dict is short enough, otherwise 2.
std::string format_npy_header(const NpyType& type, bool fortran_order, const std::vector<int64_t>& shape);

/// Returns a shape as Python prints it: "(372, 140)".
std::string shape_text(const std::vector<int64_t>& shape);

/// Returns libzip's text for one of its error codes.
std::string zip_reason(int code);

enum class NpzCompression : uint8_t { stored, deflated, fast };  // fast: deflated at zlib's level 1

/// Writes an .npz for numpy and NpzReader. Copies each added array; `close` writes the file under a temporary name and
/// renames it. A writer that was not closed writes nothing.
class NpzWriter {
 public:
  /// Starts an archive. `comment` is stored in it and ignored by readers; base/output_target.h recognises files by it.
  explicit NpzWriter(std::filesystem::path path, NpzCompression compression = NpzCompression::deflated,
                     std::string_view comment = {});
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  /// Adds an array with `values` in the order given by `fortran_order`. Throws DataError if their number does not match
  /// the shape.
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
  template <class T>
  void add(const std::string& name, const std::vector<int64_t>& shape, const std::vector<T>& values,
           bool fortran_order = false) {
    add(name, shape, std::span<const T>(values), fortran_order);
  }
  /// Adds a one-dimensional array of texts. Throws DataError for characters outside of ASCII.
  void add_text(const std::string& name, const std::vector<std::string>& values);
  /// Adds an entry with arbitrary bytes under exactly this name.
  void add_bytes(const std::string& entry, std::string bytes);
  /// Adds an entry whose bytes libzip reads in `close`. `source` is made with `archive()`; its data must live until
  /// then.
  void add_source(const std::string& entry, zip_source* source);
  zip* archive() const { return archive_; }
  /// Writes the file. Throws DataError if the archive cannot be written.
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
