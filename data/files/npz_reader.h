#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/files/npy_stream.h"

namespace foretime::data {

constexpr int64_t kAnySize = -1;

/// What a reader expects of a entry's shape: sizes, or kAnySize; and the words for it in messages, "(nodes, 140)".
struct ShapeRule {
  std::vector<int64_t> sizes;
  std::string words;
};

/// A zip archive of NPY arrays (numpy.savez), asked by entry names without ".npy".
class NpzReader {
 public:
  explicit NpzReader(std::filesystem::path path) : archive_(std::move(path)) {}

  const ZipArchive& archive() const { return archive_; }
  std::string origin(const std::string& name) const;  // "file: entry name", to start a message
  bool has(const std::string& name) const { return archive_.find(name + ".npy") != nullptr; }
  /// Throws DataError where the entry is missing, naming those that are there.
  NpyStream open(const std::string& name) const;
  /// Also checks the shape.
  NpyStream open(const std::string& name, const ShapeRule& rule) const;
  /// Size of dimension `dimension` of a entry's shape, from its header alone.
  int64_t size(const std::string& name, const ShapeRule& rule, size_t dimension) const;
  /// A whole entry in C order.
  template <NpyNumber T>
  std::vector<T> read(const std::string& name, const ShapeRule& rule) const {
    return open(name, rule).template read_all<T>();
  }
  std::vector<std::string> read_text(const std::string& name, const ShapeRule& rule) const;
  /// XXH64 over the entries' names, sizes and checksums, in the order of their names.
  uint64_t fingerprint() const;

 private:
  ZipArchive archive_;
};

}  // namespace foretime::data
