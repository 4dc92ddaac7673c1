#include "data/files/npy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <zip.h>

#include "base/check.h"
#include "base/files.h"
#include "base/index_range.h"
#include "base/numbers.h"

namespace foretime::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kLetters = "biufU";  // [NpyKind]
constexpr int64_t kLargestHeader = 1 << 20;
constexpr size_t kMostDimensions = 32;  // numpy's own limit
constexpr int64_t kLongestText = 1 << 24;

/// Reads the header's Python dict from left to right.
class DictParser {
 public:
  DictParser(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  NpyHeader parse() {
    bool seen_descr = false, seen_order = false, seen_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      bool& seen = key == "descr" ? seen_descr : key == "fortran_order" ? seen_order : seen_shape;
      if (&seen == &seen_shape && key != "shape") fail("unknown key '{}'", key);
      if (seen) fail("key '{}' occurs twice", key);
      seen = true;
      if (key == "descr") header_.type = type();
      else if (key == "fortran_order") header_.fortran_order = boolean();
      else header_.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) fail("text after the dict");
    if (!seen_descr || !seen_order || !seen_shape) fail("descr, fortran_order or shape is missing");
    return header_;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> found, Args&&... args) const {
    throw DataError("{}: NPY header: {}, expected {{'descr': …, 'fortran_order': …, 'shape': …}}", origin_,
                    fmt::format(found, std::forward<Args>(args)...));
  }
  void skip_space() {
    while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
  }
  bool accept(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("no '{}' at byte {}", c, position_);
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }
  std::string_view quoted() {
    skip_space();
    if (position_ >= text_.size() || (text_[position_] != '\'' && text_[position_] != '"'))
      fail("no string at byte {}", position_);
    const char quote = text_[position_];
    const size_t start = position_ + 1, end = text_.find(quote, start);
    if (end == std::string_view::npos) fail("a string without an end");
    position_ = end + 1;
    return text_.substr(start, end - start);
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("no True or False at byte {}", position_);
  }
  int64_t integer() {
    skip_space();
    auto rest = text_.substr(position_);
    const auto value = take_number<int64_t>(rest);
    const size_t sign = rest.starts_with('-');
    if (!value && rest.find_first_of("0123456789") == sign) fail("a dimension beyond 2^63");
    if (!value) fail("no number at byte {}", position_);
    position_ = text_.size() - rest.size();
    accept_word("L");  // Python 2 wrote long integers so
    return *value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(integer());
      if (shape.back() < 0) fail("dimension {}", shape.back());
      if (shape.size() > kMostDimensions) fail("more than {} dimensions", kMostDimensions);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  NpyType type() {
    if (accept('[')) fail("a structured type");
    const std::string descr(quoted());
    std::string_view rest = descr;
    NpyType type;
    if (!rest.empty() && std::string_view("<>=|").find(rest[0]) != std::string_view::npos) {
      type.big_endian = rest[0] == '>';
      rest.remove_prefix(1);
    }
    const char letter = rest.empty() ? '\0' : rest[0];
    const int64_t number = rest.empty() ? -1 : parse_number<int64_t>(rest.substr(1)).value_or(-1);
    const bool power = number == 1 || number == 2 || number == 4 || number == 8;
    const bool known = letter == 'b'                    ? number == 1
                       : letter == 'f'                  ? number == 2 || number == 4 || number == 8
                       : letter == 'i' || letter == 'u' ? power
                                                        : letter == 'U' && number >= 0 && number <= kLongestText;
    if (!known)
      throw DataError("{}: NPY header: type '{}', expected b1, i1 i2 i4 i8, u1 u2 u4 u8, f2 f4 f8 or U", origin_,
                      descr);
    type.kind = static_cast<NpyKind>(kLetters.find(letter));
    type.size = letter == 'U' ? number * 4 : number;
    return type;
  }

  std::string_view text_;
  const std::string& origin_;
  size_t position_ = 0;
  NpyHeader header_;
};

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string NpyType::str() const {
  const char order = kind != NpyKind::text && size == 1 ? '|' : big_endian ? '>' : '<';
  return fmt::format("{}{}{}", order, kLetters[index_of(kind)], kind == NpyKind::text ? size / 4 : size);
}

int64_t NpyHeader::elements() const {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

int64_t npy_header_bytes(std::string_view prefix, const std::string& origin) {
  if (std::ssize(prefix) < kNpyPrefixBytes || prefix.substr(0, kMagic.size()) != kMagic)
    throw DataError("{}: does not start as an NPY array (\\x93NUMPY)", origin);
  const int version = static_cast<unsigned char>(prefix[6]);
  if (version < 1 || version > 3) throw DataError("{}: NPY version {}, expected 1, 2 or 3", origin, version);
  const uint64_t length_bytes = version == 1 ? 2 : 4;
  const int64_t bytes = 8 + length_bytes + little_endian(prefix.substr(8, length_bytes));
  if (bytes > kLargestHeader)
    throw DataError("{}: NPY header of {} bytes, expected at most {}", origin, bytes, kLargestHeader);
  if (bytes < kNpyPrefixBytes) throw DataError("{}: NPY header of {} bytes, expected a dict", origin, bytes);
  return bytes;
}

NpyHeader parse_npy_header(std::string_view header, const std::string& origin) {
  const int64_t bytes = npy_header_bytes(header.substr(0, kNpyPrefixBytes), origin);
  if (bytes != std::ssize(header))
    throw DataError("{}: NPY header of {} bytes, expected {}", origin, header.size(), bytes);
  NpyHeader parsed = DictParser(header.substr(header[6] == 1 ? 10 : 12), origin).parse();
  parsed.header_bytes = bytes;
  // Zero dimensions count as one here: the product of the others must not overflow on its way to zero either.
  int64_t product = std::max<int64_t>(parsed.type.size, 1);
  for (const int64_t dimension : parsed.shape)
    if (dimension != 0 && __builtin_mul_overflow(product, dimension, &product))
      throw DataError("{}: NPY header: shape {} of {} overflows 64 bits", origin, shape_text(parsed.shape),
                      parsed.type.str());
  return parsed;
}

std::string format_npy_header(const NpyType& type, bool fortran_order, const std::vector<int64_t>& shape) {
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type.str(),
                                 fortran_order ? "True" : "False", shape_text(shape));
  const bool first = dict.size() + 11 + 64 <= std::numeric_limits<uint16_t>::max();
  const size_t prefix = first ? 10 : 12;
  const size_t total = (prefix + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - prefix - dict.size() - 1, ' ');
  dict.push_back('\n');
  std::string header(kMagic);
  header.push_back(first ? '\1' : '\2');
  header.push_back('\0');
  for (size_t i = 0; i < prefix - 8; ++i) header.push_back(dict.size() >> (8 * i) & 0xff);
  return header + dict;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::string zip_reason(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  return reason;
}

NpzWriter::NpzWriter(std::filesystem::path path, NpzCompression compression, std::string_view comment)
    : path_(std::move(path)), compression_(compression) {
  int error = 0;
  archive_ = zip_open(path_.string().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive_ == nullptr) throw DataError("{}: cannot be written ({})", path_.string(), zip_reason(error));
  zip_set_archive_comment(archive_, comment.data(), comment.size());
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

}  // namespace foretime::data
