#include "data/files/npz_writer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <zip.h>

namespace foretime::data {

NpzWriter::NpzWriter(std::filesystem::path path, NpzCompression compression)
    : path_(std::move(path)), compression_(compression) {
  int error = 0;
  archive_ = zip_open(path_.string().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive_ == nullptr)
    throw DataError(fmt::format("{}: cannot be written (libzip error {})", path_.string(), error));
}

NpzWriter::~NpzWriter() {
  if (archive_ != nullptr) zip_discard(archive_);
}

void NpzWriter::add_array(const std::string& name, const NpyType& type, bool fortran_order,
                          const std::vector<int64_t>& shape, const void* data, size_t bytes) {
  std::string text = format_npy_header(type, fortran_order, shape);
  const NpyHeader header = parse_npy_header(text, fmt::format("{}: entry {}", path_.string(), name));
  if (header.payload_bytes() != static_cast<int64_t>(bytes))
    throw DataError(fmt::format("{}: entry {}: {} bytes, expected {} for shape {}", path_.string(), name, bytes,
                                header.payload_bytes(), shape_text(shape)));
  text.append(static_cast<const char*>(data), bytes);
  add_bytes(name + ".npy", std::move(text));
}

void NpzWriter::add_text(const std::string& name, const std::vector<std::string>& values) {
  size_t longest = 1;
  for (const auto& value : values) longest = std::max(longest, value.size());
  std::vector<uint32_t> characters(longest * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values[i].size(); ++j) {
      const auto c = static_cast<unsigned char>(values[i][j]);
      if (c >= 0x80)
        throw DataError(fmt::format("{}: entry {}: '{}', expected ASCII", path_.string(), name, values[i]));
      characters[i * longest + j] = c;
    }
  }
  add_array(name, {NpyKind::text, static_cast<int64_t>(longest * 4), false}, false,
            {static_cast<int64_t>(values.size())}, characters.data(), characters.size() * 4);
}

void NpzWriter::add_bytes(const std::string& entry, std::string bytes) {
  if (archive_ == nullptr) throw DataError(fmt::format("{}: entry {}: the archive is closed", path_.string(), entry));
  const std::string& kept = entries_.emplace_back(std::move(bytes));
  zip_source_t* source = zip_source_buffer(archive_, kept.data(), kept.size(), 0);
  const zip_int64_t index = source == nullptr ? -1 : zip_file_add(archive_, entry.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    if (source != nullptr) zip_source_free(source);
    throw DataError(fmt::format("{}: entry {}: cannot be added ({})", path_.string(), entry, zip_strerror(archive_)));
  }
  const auto method = compression_ == NpzCompression::stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE;
  zip_set_file_compression(archive_, static_cast<zip_uint64_t>(index), method, 0);
  // A fixed date, 1980-01-01, so that equal arrays give equal files.
  zip_file_set_dostime(archive_, static_cast<zip_uint64_t>(index), 0, 0x21, 0);
}

void NpzWriter::close() {
  if (archive_ == nullptr) return;
  if (zip_close(archive_) != 0)
    throw DataError(fmt::format("{}: cannot be written ({})", path_.string(), zip_strerror(archive_)));
  archive_ = nullptr;
}

}  // namespace foretime::data
