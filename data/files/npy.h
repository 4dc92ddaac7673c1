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

/// The NPY format, versions 1, 2 and 3 (numpy, NEP 1 and numpy.lib.format): magic, version, header length, a Python
/// dict with descr, fortran_order and shape, then the elements.
namespace foretime::data {

enum class NpyKind : uint8_t { boolean, signed_integer, unsigned_integer, floating, text };

/// Element type: bool of 1 byte, integers of 1, 2, 4, 8 bytes, IEEE floats of 2, 4 or 8 bytes, text of UCS-4
/// characters.
struct NpyType {
  NpyKind kind = NpyKind::floating;
  int64_t size = 0;  // bytes an element
  bool big_endian = false;

  std::string str() const;  // as numpy writes it: <f4, |u1, <U16
};

struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;  // not negative; the product of all, times the element size, fits into 63 bits
  int64_t header_bytes = 0;    // from the magic to the first element

  int64_t elements() const;
  int64_t payload_bytes() const { return elements() * type.size; }
};

constexpr int64_t kNpyPrefixBytes = 12;  // enough to learn how long the header of any version is

/// Bytes from the magic to the first element, from the first `kNpyPrefixBytes` of the file (shorter files are refused).
/// Throws DataError for a wrong magic, an unknown version, or a header of more than 1 MiB. `origin` starts messages.
int64_t npy_header_bytes(std::string_view prefix, const std::string& origin);

/// Parses a whole header, magic included. Throws DataError for a malformed dict, a type that is not listed above,
/// negative dimensions and shapes whose bytes overflow.
NpyHeader parse_npy_header(std::string_view header, const std::string& origin);

/// A header as numpy would write it, padded to 64 bytes; version 1 where the dict is short enough, else 2.
std::string format_npy_header(const NpyType& type, bool fortran_order, const std::vector<int64_t>& shape);

/// "(372, 140)", as Python prints it.
std::string shape_text(const std::vector<int64_t>& shape);

/// What libzip says of one of its error codes.
std::string zip_reason(int code);

enum class NpzCompression : uint8_t { stored, deflated, fast };  // fast: deflated at zlib's level 1

/// Writes an .npz that numpy and NpzReader read. Arrays are copied when they are added; nothing is on disk before
/// `close`, which writes beside the final place and renames. A writer that was not closed writes nothing.
class NpzWriter {
 public:
  /// `comment` is that of the archive, which readers ignore; base/output_target.h recognises files by it.
  explicit NpzWriter(std::filesystem::path path, NpzCompression compression = NpzCompression::deflated,
                     std::string_view comment = {});
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  /// `values` stand in the order that `fortran_order` says. Throws DataError where their number is not the shape's.
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
  /// A one-dimensional array of texts. ASCII only: throws DataError for other characters.
  void add_text(const std::string& name, const std::vector<std::string>& values);
  /// A entry with these bytes, whatever they are; its name is taken as it stands.
  void add_bytes(const std::string& entry, std::string bytes);
  /// A entry whose bytes libzip asks for in `close`: `source` is made with `archive()`, and what it reads from must
  /// live until then.
  void add_source(const std::string& entry, zip_source* source);
  zip* archive() const { return archive_; }
  /// Throws DataError where the archive cannot be written.
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
