#include "data/files/npy.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

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

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace foretime::data
