#include "tests/support/npz_writer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <zip.h>

#include "base/check.h"
#include "base/error.h"
#include "base/files.h"

namespace foretime::testing {
namespace {

using namespace data;

/// Returns libzip's text for one of its error codes.
std::string zip_reason(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  return reason;
}

}  // namespace

std::string format_npy_header(const NpyType& type, bool fortran_order, const std::vector<int64_t>& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type.str(),
                                 fortran_order ? "True" : "False", shape_text(shape));
  const bool first = dict.size() + 11 + 64 <= std::numeric_limits<uint16_t>::max();
  const size_t prefix = first ? 10 : 12;
  const size_t total = (prefix + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - prefix - dict.size() - 1, ' ');
  dict.push_back('\n');
  std::string header("\x93NUMPY");
  header.push_back(first ? '\1' : '\2');
  header.push_back('\0');
  for (size_t i = 0; i < prefix - 8; ++i) header.push_back(dict.size() >> (8 * i) & 0xff);
  return header + dict;
}

NpzWriter::NpzWriter(std::filesystem::path path, NpzCompression compression)
    : path_(std::move(path)), compression_(compression) {
  int error = 0;
  archive_ = zip_open(path_.string().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive_ == nullptr) throw DataError("{}: cannot be written ({})", path_.string(), zip_reason(error));
}

NpzWriter::~NpzWriter() {
  if (archive_ != nullptr) zip_discard(archive_);
}

void NpzWriter::add_array(const std::string& name, const NpyType& type, bool fortran_order,
                          const std::vector<int64_t>& shape, const void* data, size_t bytes) {
  std::string text = format_npy_header(type, fortran_order, shape);
  const NpyHeader header = parse_npy_header(text, fmt::format("{}: entry {}", path_.string(), name));
  if (std::cmp_not_equal(header.payload_bytes(), bytes))
    throw DataError("{}: entry {}: {} bytes, expected {} for shape {}", path_.string(), name, bytes,
                    header.payload_bytes(), shape_text(shape));
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
      if (c >= 0x80) throw DataError("{}: entry {}: '{}', expected ASCII", path_.string(), name, values[i]);
      characters[i * longest + j] = c;
    }
  }
  add_array(name, {NpyKind::text, static_cast<int64_t>(longest * 4), false}, false, {std::ssize(values)},
            characters.data(), characters.size() * 4);
}

void NpzWriter::add_bytes(const std::string& entry, std::string bytes) {
  FORETIME_CHECK(archive_ != nullptr, "entry {} of the closed archive {}", entry, path_.string());
  const std::string& kept = entries_.emplace_back(std::move(bytes));
  add_source(entry, zip_source_buffer(archive_, kept.data(), kept.size(), 0));
}

void NpzWriter::add_source(const std::string& entry, zip_source_t* source) {
  FORETIME_CHECK(archive_ != nullptr, "entry {} of the closed archive {}", entry, path_.string());
  const zip_int64_t index = source == nullptr ? -1 : zip_file_add(archive_, entry.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    if (source != nullptr) zip_source_free(source);
    throw DataError("{}: entry {}: cannot be added ({})", path_.string(), entry, zip_strerror(archive_));
  }
  const auto method = compression_ == NpzCompression::stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE;
  const zip_uint32_t level = compression_ == NpzCompression::fast ? 1 : 0;  // 0: the library's own
  zip_set_file_compression(archive_, index, method, level);
  // A fixed date, 1980-01-01, so that equal arrays give equal files.
  zip_file_set_dostime(archive_, index, 0, 0x21, 0);
}

void NpzWriter::close() {
  if (archive_ == nullptr) return;
  const bool closed = zip_close(archive_) == 0;
  const int error = closed ? 0 : zip_error_code_system(zip_get_error(archive_));
  if (is_storage_failure(error)) throw_file_error(path_, "cannot be written", error);
  if (!closed) throw DataError("{}: cannot be written ({})", path_.string(), zip_strerror(archive_));
  archive_ = nullptr;
}

}  // namespace foretime::testing
