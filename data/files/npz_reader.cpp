#include "data/files/npz_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <type_traits>

#include <fmt/format.h>
#include <zip.h>

#include "base/checksum.h"
#include "base/files.h"
#include "base/no_copy.h"

namespace foretime::data {
namespace {

constexpr uint64_t kDeflateExpansion = 1032;
constexpr uint64_t kExpansionSlack = 1 << 12;  // lets tiny entries pass: the bound is on memory, not on style
constexpr uint64_t kReadPiece = uint64_t{1} << 30;
constexpr uint64_t kBufferBytes = uint64_t{1} << 17;

ZipEntry checked_member(const std::string& file, uint64_t file_size, const zip_stat_t& stat) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_INDEX | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_CRC | ZIP_STAT_COMP_METHOD;
  if ((stat.valid & kNeeded) != kNeeded) throw DataError("{}: zip directory: an entry is incomplete", file);
  ZipEntry entry{stat.name, stat.index, stat.size, stat.comp_size, stat.crc, stat.comp_method == ZIP_CM_DEFLATE};
  if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) && stat.encryption_method != ZIP_EM_NONE)
    throw DataError("{}: entry {}: encrypted, expected plain", file, entry.name);
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    throw DataError("{}: entry {}: compression method {}, expected 0 (stored) or 8 (deflated)", file, entry.name,
                    stat.comp_method);
  if (entry.compressed_size > file_size)
    throw DataError("{}: entry {}: {} compressed bytes, but the file has {}", file, entry.name, entry.compressed_size,
                    file_size);
  const uint64_t largest = stat.comp_method == ZIP_CM_STORE
                               ? entry.compressed_size
                               : entry.compressed_size * kDeflateExpansion + kExpansionSlack;
  if (entry.size > largest)
    throw DataError("{}: entry {}: claims {} bytes, but its {} compressed bytes hold at most {}", file, entry.name,
                    entry.size, entry.compressed_size, largest);
  return entry;
}

/// Throws StorageError where that error of libzip comes from the storage.
void check_storage(const std::filesystem::path& path, zip_error_t* error) {
  const int code = zip_error_system_type(error) == ZIP_ET_SYS ? zip_error_code_system(error) : 0;
  if (is_storage_failure(code)) throw_file_error(path, "cannot be read", code);
}

class ZipError : NoCopy {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  zip_error_t* get() { return &error_; }

 private:
  zip_error_t error_{};
};

}  // namespace

void ZipReader::Close::operator()(zip_file* file) const { zip_fclose(file); }
void ZipArchive::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipReader::ZipReader(std::string origin, ZipEntry entry, zip_file* file)
    : origin_(std::move(origin)), entry_(std::move(entry)), file_(file) {
  if (!entry_.deflated) return;
  inflater_.emplace();
  buffer_.resize(std::min(entry_.compressed_size, kBufferBytes));
}

/// Reads at most `count` bytes, unchanged from the archive; returns 0 at the end.
uint64_t ZipReader::read_raw(void* out, uint64_t count) {
  const zip_int64_t got = zip_fread(file_.get(), out, std::min(count, kReadPiece));
  // libzip compares the checksum of stored entries itself, when it meets their end.
  if (got < 0 && zip_error_code_zip(zip_file_get_error(file_.get())) == ZIP_ER_CRC) fail("checksum is wrong");
  if (got < 0) check_storage(origin_, zip_file_get_error(file_.get()));
  if (got < 0) fail("damaged after {} of {} bytes ({})", position_, entry_.size, zip_file_strerror(file_.get()));
  return got;
}

/// Inflates at most out.size() bytes; returns 0 at the end of the stream or of its bytes in the archive.
uint64_t ZipReader::inflate_some(std::span<std::byte> out) {
  for (bool exhausted = false; !ended_;) {
    if (unread_.empty() && !exhausted) {
      unread_ = std::span<const std::byte>(buffer_).first(read_raw(buffer_.data(), buffer_.size()));
      exhausted = unread_.empty();
    }
    const auto step = inflater_->inflate(unread_, out);
    unread_ = unread_.subspan(step.consumed);
    ended_ = step.ended;
    if (step.damaged) fail("damaged after {} of {} bytes (no deflate stream)", position_, entry_.size);
    if (step.produced > 0) return step.produced;
    if (exhausted && step.consumed == 0) return 0;
  }
  return 0;
}

void ZipReader::read(void* out, uint64_t count) {
  auto* bytes = static_cast<std::byte*>(out);
  while (count > 0) {
    // In pieces that the checksum finds in the cache.
    const uint64_t wanted = std::min(count, kBufferBytes);
    const uint64_t got = inflater_ ? inflate_some({bytes, wanted}) : read_raw(bytes, wanted);
    if (got == 0) fail("ends after {} bytes, expected {} more", position_, count);
    crc_ = crc32_of({bytes, got}, crc_);
    bytes += got;
    position_ += got;
    count -= got;
  }
}

void ZipReader::finish() {
  std::byte extra{};
  const uint64_t got = inflater_ ? inflate_some({&extra, 1}) : read_raw(&extra, 1);
  if (got > 0) fail("has more than {} bytes, expected its end", position_);
  if (inflater_ && !ended_) fail("cut off after {} bytes, expected the end of its deflate stream", position_);
  if (position_ != entry_.size) fail("{} bytes, but the zip directory records {}", position_, entry_.size);
  if (crc_ != entry_.crc) fail("checksum is wrong (CRC-32 {:08x}, expected {:08x})", crc_, entry_.crc);
}

ZipArchive::ZipArchive(std::filesystem::path path) : path_(std::move(path)) {
  const std::string file = path_.string();
  std::error_code code;
  const uint64_t file_size = std::filesystem::file_size(path_, code);
  if (code && is_storage_failure(code.value())) throw_file_error(path_, "cannot be read", code.value());
  if (code) throw DataError("{}: cannot be read ({}), expected a zip archive", file, code.message());
  ZipError error;
  auto* source = zip_source_file_create(file.c_str(), 0, 0, error.get());  // length 0: whole file
  if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY, error.get()));
  if (!archive_) {
    zip_source_free(source);
    check_storage(path_, error.get());
    throw DataError("{}: truncated or not a zip archive ({})", file, zip_error_strerror(error.get()));
  }
  const zip_int64_t entries = zip_get_num_entries(archive_.get(), 0);
  std::set<std::string> names;
  for (zip_int64_t i = 0; i < entries; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(archive_.get(), i, 0, &stat) != 0)
      throw DataError("{}: zip directory: entry {} ({})", file, i, zip_strerror(archive_.get()));
    entries_.push_back(checked_member(file, file_size, stat));
    if (!names.insert(entries_.back().name).second)
      throw DataError("{}: entry {}: occurs twice", file, entries_.back().name);
  }
}

const ZipEntry* ZipArchive::find(const std::string& name) const {
  const auto found = std::ranges::find_if(entries_, [&](const auto& m) { return m.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

ZipReader ZipArchive::open(const ZipEntry& entry) const {
  std::string origin = fmt::format("{}: entry {}", path_.string(), entry.name);
  zip_file* file = zip_fopen_index(archive_.get(), entry.index, ZIP_FL_COMPRESSED);
  if (file == nullptr) {
    check_storage(origin, zip_get_error(archive_.get()));
    throw DataError("{}: cannot be opened ({})", origin, zip_strerror(archive_.get()));
  }
  return ZipReader(std::move(origin), entry, file);
}

namespace {

static_assert(std::endian::native == std::endian::little, "elements of little-endian files are copied unchanged");

constexpr int64_t kPieceElements = 1 << 14;

template <class T>
bool is_same_type(const NpyType& type) {
  const auto kind = std::is_floating_point_v<T> ? NpyKind::floating
                    : std::is_signed_v<T>       ? NpyKind::signed_integer
                                                : NpyKind::unsigned_integer;
  return type.kind == kind && type.size == sizeof(T) && (!type.big_endian || sizeof(T) == 1);
}

template <class From>
From load(const unsigned char* bytes, bool big_endian) {
  unsigned char ordered[sizeof(From)];
  std::memcpy(ordered, bytes, sizeof(From));
  if (big_endian) std::reverse(ordered, ordered + sizeof(From));
  return std::bit_cast<From>(ordered);
}

/// IEEE 754's binary16, which not every compiler has.
struct Half {
  uint16_t bits;
  explicit operator float() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = std::ldexp(static_cast<float>(fraction), -24);
    if (exponent == 31)
      value = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    else if (exponent > 0) value = std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -value : value;
  }
  explicit operator double() const { return static_cast<float>(*this); }
};

template <class From, class To>
void convert(const unsigned char* bytes, bool big_endian, To* out, int64_t count, const std::string& origin) {
  for (int64_t i = 0; i < count; ++i) {
    const From value = load<From>(bytes + i * static_cast<int64_t>(sizeof(From)), big_endian);
    if constexpr (std::is_integral_v<To>)
      if (!std::in_range<To>(value))
        throw DataError("{}: value {}, expected {} bits {}", origin, value, sizeof(To) * 8,
                        std::is_signed_v<To> ? "with a sign" : "without a sign");
    out[i] = static_cast<To>(value);
  }
}

/// Picks the conversion of one element type; false where there is none.
template <class To>
bool convert_any(const NpyType& type, const unsigned char* bytes, To* out, int64_t count, const std::string& origin) {
  const auto run = [&]<class From>(From) {
    convert<From, To>(bytes, type.big_endian, out, count, origin);
    return true;
  };
  if constexpr (std::is_floating_point_v<To>) {
    if (type.kind != NpyKind::floating) return false;
    if (type.size == 2) return run(Half{});
    return type.size == 4 ? run(float{}) : run(double{});
  } else {
    if (type.kind == NpyKind::boolean) return run(uint8_t{});
    const bool sign = type.kind == NpyKind::signed_integer;
    if (!sign && type.kind != NpyKind::unsigned_integer) return false;
    switch (type.size) {
      case 1: return sign ? run(int8_t{}) : run(uint8_t{});
      case 2: return sign ? run(int16_t{}) : run(uint16_t{});
      case 4: return sign ? run(int32_t{}) : run(uint32_t{});
      default: return sign ? run(int64_t{}) : run(uint64_t{});
    }
  }
}

NpyHeader read_header(ZipReader& reader, const std::string& origin) {
  if (std::cmp_less(reader.entry().size, kNpyPrefixBytes))
    throw DataError("{}: {} bytes, expected an NPY array", origin, reader.entry().size);
  std::string text(kNpyPrefixBytes, '\0');
  reader.read(text.data(), text.size());
  const uint64_t bytes = npy_header_bytes(text, origin);
  if (bytes > reader.entry().size)
    throw DataError("{}: NPY header of {} bytes, but the entry has {}", origin, bytes, reader.entry().size);
  text.resize(bytes);
  reader.read(text.data() + kNpyPrefixBytes, bytes - kNpyPrefixBytes);
  NpyHeader header = parse_npy_header(text, origin);
  const uint64_t held = reader.entry().size - bytes;
  if (std::cmp_not_equal(header.payload_bytes(), held))
    throw DataError("{}: the header's shape {} of {} needs {} bytes, but the entry holds {}", origin,
                    shape_text(header.shape), header.type.str(), header.payload_bytes(), held);
  return header;
}

/// Reorders elements whose first index varies fastest into C order.
template <class T>
std::vector<T> to_c_order(const std::vector<T>& values, const std::vector<int64_t>& shape) {
  std::vector<int64_t> stride(shape.size()), index(shape.size(), 0);
  int64_t step = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    stride[d] = step;
    step *= shape[d];
  }
  std::vector<T> out(values.size());
  int64_t from = 0;
  for (auto& value : out) {
    value = values[from];
    for (size_t d = shape.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < shape[d]) break;
      from -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

std::string without_suffix(const std::string& name) {
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(c);
    return;
  }
  const int following = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned char kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out.push_back(kLead[following] | c >> (6 * following));
  for (int i = following; i-- > 0;) out.push_back((0x80 | (c >> (6 * i) & 0x3f)));
}

}  // namespace

NpyStream::NpyStream(const ZipArchive& archive, const ZipEntry& entry)
    : origin_(fmt::format("{}: entry {}", archive.path().string(), without_suffix(entry.name))),
      reader_(archive.open(entry)),
      header_(read_header(reader_, origin_)),
      remaining_(header_.elements()) {}

void NpyStream::claim(int64_t count) {
  if (count < 0 || count > remaining_)
    throw DataError("{}: {} elements are left, expected {}", origin_, remaining_, count);
  remaining_ -= count;
}

template <NpyNumber T>
void NpyStream::read(T* out, int64_t count) {
  claim(count);
  const NpyType& type = header_.type;
  if (is_same_type<T>(type)) {
    reader_.read(out, count * sizeof(T));
    return;
  }
  std::vector<unsigned char> piece(std::min(count, kPieceElements) * type.size);
  bool known = convert_any<T>(type, piece.data(), out, 0, origin_);
  while (known && count > 0) {
    const int64_t now = std::min(count, kPieceElements);
    reader_.read(piece.data(), now * type.size);
    convert_any<T>(type, piece.data(), out, now, origin_);
    out += now;
    count -= now;
  }
  if (!known)
    throw DataError("{}: type {}, expected {}", origin_, type.str(),
                    std::is_floating_point_v<T> ? "f2, f4 or f8" : "an integer type");
}

std::vector<std::string> NpyStream::read_text(int64_t count) {
  claim(count);
  const NpyType& type = header_.type;
  if (type.kind != NpyKind::text) throw DataError("{}: type {}, expected text (U)", origin_, type.str());
  std::vector<std::string> texts(count);
  std::vector<unsigned char> bytes(type.size);
  for (auto& text : texts) {
    reader_.read(bytes.data(), bytes.size());
    std::vector<uint32_t> characters(bytes.size() / 4);
    for (size_t i = 0; i < characters.size(); ++i) characters[i] = load<uint32_t>(&bytes[i * 4], type.big_endian);
    while (!characters.empty() && characters.back() == 0) characters.pop_back();
    for (const uint32_t c : characters) {
      if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        throw DataError("{}: character {:#x}, expected Unicode", origin_, c);
      append_utf8(text, c);
    }
  }
  return texts;
}

template <NpyNumber T>
std::vector<T> NpyStream::read_all() {
  std::vector<T> values(remaining_);
  read(values.data(), remaining_);
  finish();
  const auto wide = std::ranges::count_if(header_.shape, [](int64_t d) { return d > 1; });
  return header_.fortran_order && wide > 1 ? to_c_order(values, header_.shape) : values;
}

#define FORETIME_INSTANTIATE(T)                  \
  template void NpyStream::read<T>(T*, int64_t); \
  template std::vector<T> NpyStream::read_all<T>();
FORETIME_INSTANTIATE(int8_t)
FORETIME_INSTANTIATE(int16_t)
FORETIME_INSTANTIATE(int32_t)
FORETIME_INSTANTIATE(int64_t)
FORETIME_INSTANTIATE(uint8_t)
FORETIME_INSTANTIATE(uint16_t)
FORETIME_INSTANTIATE(uint32_t)
FORETIME_INSTANTIATE(uint64_t)
FORETIME_INSTANTIATE(float)
FORETIME_INSTANTIATE(double)
#undef FORETIME_INSTANTIATE

std::string NpzReader::origin(const std::string& name) const {
  return fmt::format("{}: entry {}", archive_.path().string(), name);
}

NpyStream NpzReader::open(const std::string& name) const {
  const ZipEntry* entry = archive_.find(name + ".npy");
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const auto& found : archive_.entries()) names.push_back(found.name);
    throw DataError("{}: missing, the archive has: {}", origin(name), fmt::join(names, ", "));
  }
  return NpyStream(archive_, *entry);
}

NpyStream NpzReader::open(const std::string& name, const ShapeRule& rule) const {
  NpyStream stream = open(name);
  const auto& shape = stream.header().shape;
  const bool fits = std::equal(shape.begin(), shape.end(), rule.sizes.begin(), rule.sizes.end(),
                               [](int64_t found, int64_t wanted) { return wanted == kAnySize || found == wanted; });
  if (!fits) {
    std::string expected = rule.words;
    if (std::ranges::count(rule.sizes, kAnySize) < std::ssize(rule.sizes)) {
      std::vector<std::string> sizes;
      for (const int64_t size : rule.sizes) sizes.push_back(size == kAnySize ? "any" : std::to_string(size));
      const std::string text = fmt::format("({}{})", fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
      if (text != expected) expected += " = " + text;
    }
    throw DataError("{}: shape {}, expected {}", stream.origin(), shape_text(shape), expected);
  }
  return stream;
}

int64_t NpzReader::size(const std::string& name, const ShapeRule& rule, size_t dimension) const {
  return open(name, rule).header().shape.at(dimension);
}

std::vector<std::string> NpzReader::read_text(const std::string& name, const ShapeRule& rule) const {
  NpyStream stream = open(name, rule);
  auto texts = stream.read_text(stream.remaining());
  stream.finish();
  return texts;
}

uint64_t NpzReader::fingerprint() const {
  std::vector<const ZipEntry*> sorted;
  for (const auto& entry : archive_.entries()) sorted.push_back(&entry);
  std::ranges::sort(sorted, [](const auto* a, const auto* b) { return a->name < b->name; });
  std::string text;
  for (const auto* entry : sorted) text += fmt::format("{}\n{} {}\n", entry->name, entry->size, entry->crc);
  return checksum_of(std::span<const char>(text));
}

}  // namespace foretime::data
