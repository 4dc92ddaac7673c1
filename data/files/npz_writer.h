#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "data/files/npy.h"

struct zip;

namespace foretime::data {

enum class NpzCompression : uint8_t { stored, deflated };

/// Writes an .npz that numpy and NpzReader read. Arrays are copied when they are added; nothing is on disk before
/// `close`, which writes beside the final place and renames. A writer that was not closed writes nothing.
class NpzWriter {
 public:
  explicit NpzWriter(std::filesystem::path path, NpzCompression compression = NpzCompression::deflated);
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
