#include "data/files/zip_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <zip.h>

namespace foretime::data {
namespace {

constexpr uint64_t kDeflateExpansion = 1032;
constexpr uint64_t kExpansionSlack = 1 << 12;  // lets tiny entries pass: the bound is on memory, not on style
constexpr uint64_t kReadPiece = uint64_t{1} << 30;
constexpr uint64_t kBufferBytes = uint64_t{1} << 17;

ZipEntry checked_member(const std::string& file, uint64_t file_size, const zip_stat_t& stat) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_INDEX | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_CRC | ZIP_STAT_COMP_METHOD;
  if ((stat.valid & kNeeded) != kNeeded)
    throw DataError(fmt::format("{}: zip directory: an entry is incomplete", file));
  ZipEntry entry{stat.name, stat.index, stat.size, stat.comp_size, stat.crc, stat.comp_method == ZIP_CM_DEFLATE};
  if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) && stat.encryption_method != ZIP_EM_NONE)
    throw DataError(fmt::format("{}: entry {}: encrypted, expected plain", file, entry.name));
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    throw DataError(fmt::format("{}: entry {}: compression method {}, expected 0 (stored) or 8 (deflated)", file,
                                entry.name, stat.comp_method));
  if (entry.compressed_size > file_size)
    throw DataError(fmt::format("{}: entry {}: {} compressed bytes, but the file has {}", file, entry.name,
                                entry.compressed_size, file_size));
  const uint64_t largest = stat.comp_method == ZIP_CM_STORE
                               ? entry.compressed_size
                               : entry.compressed_size * kDeflateExpansion + kExpansionSlack;
  if (entry.size > largest)
    throw DataError(fmt::format("{}: entry {}: claims {} bytes, but its {} compressed bytes hold at most {}", file,
                                entry.name, entry.size, entry.compressed_size, largest));
  return entry;
}

}  // namespace

void ZipReader::Close::operator()(zip_file* file) const { zip_fclose(file); }
void ZipArchive::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipReader::ZipReader(std::string origin, ZipEntry entry, zip_file* file)
    : origin_(std::move(origin)), entry_(std::move(entry)), file_(file) {
  if (!entry_.deflated) return;
  inflater_.emplace();
  buffer_.resize(std::min(entry_.compressed_size, kBufferBytes));
}

void ZipReader::fail(const std::string& found) const { throw DataError(fmt::format("{}: {}", origin_, found)); }

/// At most `count` bytes as they stand in the archive; 0 at their end.
uint64_t ZipReader::read_raw(void* out, uint64_t count) {
  const zip_int64_t got = zip_fread(file_.get(), out, std::min(count, kReadPiece));
  // libzip compares the checksum of stored entries itself, when it meets their end.
  if (got < 0 && zip_error_code_zip(zip_file_get_error(file_.get())) == ZIP_ER_CRC) fail("checksum is wrong");
  if (got < 0)
    fail(fmt::format("damaged after {} of {} bytes ({})", position_, entry_.size, zip_file_strerror(file_.get())));
  return static_cast<uint64_t>(got);
}

/// At most as many bytes as there is room for; 0 at the end of the stream, or of what the archive has of it.
uint64_t ZipReader::inflate_some(std::span<std::byte> out) {
  for (bool exhausted = false; !ended_;) {
    if (unread_.empty() && !exhausted) {
      unread_ = std::span<const std::byte>(buffer_).first(read_raw(buffer_.data(), buffer_.size()));
      exhausted = unread_.empty();
    }
    const auto step = inflater_->inflate(unread_, out);
    unread_ = unread_.subspan(step.consumed);
    ended_ = step.ended;
    if (step.damaged) fail(fmt::format("damaged after {} of {} bytes (no deflate stream)", position_, entry_.size));
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
    if (got == 0) fail(fmt::format("ends after {} bytes, expected {} more", position_, count));
    crc_ = crc32_of({bytes, got}, crc_);
    bytes += got;
    position_ += got;
    count -= got;
  }
}

void ZipReader::finish() {
  std::byte extra{};
  const uint64_t got = inflater_ ? inflate_some({&extra, 1}) : read_raw(&extra, 1);
  if (got > 0) fail(fmt::format("goes on after {} bytes, expected its end", position_));
  if (inflater_ && !ended_)
    fail(fmt::format("cut off after {} bytes, expected the end of its deflate stream", position_));
  if (position_ != entry_.size) fail(fmt::format("{} bytes, but the zip directory records {}", position_, entry_.size));
  if (crc_ != entry_.crc) fail(fmt::format("checksum is wrong (CRC-32 {:08x}, expected {:08x})", crc_, entry_.crc));
}

ZipArchive::ZipArchive(std::filesystem::path path) : path_(std::move(path)) {
  const std::string file = path_.string();
  std::error_code code;
  const uint64_t file_size = std::filesystem::file_size(path_, code);
  if (code) throw DataError(fmt::format("{}: cannot be read ({}), expected a zip archive", file, code.message()));
  int error = 0;
  archive_.reset(zip_open(file.c_str(), ZIP_RDONLY, &error));
  if (!archive_) {
    zip_error_t detail;
    zip_error_init_with_code(&detail, error);
    const std::string reason = zip_error_strerror(&detail);
    zip_error_fini(&detail);
    throw DataError(fmt::format("{}: truncated or not a zip archive ({})", file, reason));
  }
  const zip_int64_t entries = zip_get_num_entries(archive_.get(), 0);
  std::set<std::string> names;
  for (zip_int64_t i = 0; i < entries; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0)
      throw DataError(fmt::format("{}: zip directory: entry {} ({})", file, i, zip_strerror(archive_.get())));
    entries_.push_back(checked_member(file, file_size, stat));
    if (!names.insert(entries_.back().name).second)
      throw DataError(fmt::format("{}: entry {}: occurs twice", file, entries_.back().name));
  }
}

const ZipEntry* ZipArchive::find(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& m) { return m.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

ZipReader ZipArchive::open(const ZipEntry& entry) const {
  std::string origin = fmt::format("{}: entry {}", path_.string(), entry.name);
  zip_file* file = zip_fopen_index(archive_.get(), entry.index, ZIP_FL_COMPRESSED);
  if (file == nullptr) throw DataError(fmt::format("{}: cannot be opened ({})", origin, zip_strerror(archive_.get())));
  return ZipReader(std::move(origin), entry, file);
}

}  // namespace foretime::data
