#include "data/zip_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <zip.h>

namespace foretime::data {
namespace {

constexpr uint64_t kDeflateExpansion = 1032;
constexpr uint64_t kExpansionSlack = 1 << 12;  // lets tiny members pass: the bound is on memory, not on style
constexpr uint64_t kReadPiece = uint64_t{1} << 30;

ZipMember checked_member(const std::string& file, uint64_t file_size, const zip_stat_t& stat) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_INDEX | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_CRC | ZIP_STAT_COMP_METHOD;
  if ((stat.valid & kNeeded) != kNeeded)
    throw DataError(fmt::format("{}: zip directory: an entry is incomplete", file));
  ZipMember member{stat.name, stat.index, stat.size, stat.comp_size, stat.crc};
  if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) && stat.encryption_method != ZIP_EM_NONE)
    throw DataError(fmt::format("{}: member {}: encrypted, expected plain", file, member.name));
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    throw DataError(fmt::format("{}: member {}: compression method {}, expected 0 (stored) or 8 (deflated)", file,
                                member.name, stat.comp_method));
  if (member.compressed_size > file_size)
    throw DataError(fmt::format("{}: member {}: {} compressed bytes, but the file has {}", file, member.name,
                                member.compressed_size, file_size));
  const uint64_t largest = stat.comp_method == ZIP_CM_STORE
                               ? member.compressed_size
                               : member.compressed_size * kDeflateExpansion + kExpansionSlack;
  if (member.size > largest)
    throw DataError(fmt::format("{}: member {}: claims {} bytes, but its {} compressed bytes hold at most {}", file,
                                member.name, member.size, member.compressed_size, largest));
  return member;
}

}  // namespace

void ZipReader::Close::operator()(zip_file* file) const { zip_fclose(file); }
void ZipArchive::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipReader::ZipReader(std::string origin, ZipMember member, zip_file* file)
    : origin_(std::move(origin)), member_(std::move(member)), file_(file) {}

void ZipReader::fail(const std::string& found) const { throw DataError(fmt::format("{}: {}", origin_, found)); }

void ZipReader::read(void* out, uint64_t count) {
  auto* bytes = static_cast<char*>(out);
  while (count > 0) {
    const zip_int64_t got = zip_fread(file_.get(), bytes, std::min(count, kReadPiece));
    if (got < 0)
      fail(fmt::format("damaged after {} of {} bytes ({})", position_, member_.size, zip_file_strerror(file_.get())));
    if (got == 0) fail(fmt::format("ends after {} bytes, expected {} more", position_, count));
    bytes += got;
    position_ += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

void ZipReader::finish() {
  char extra = 0;
  const zip_int64_t got = zip_fread(file_.get(), &extra, 1);  // libzip compares the checksum when it meets the end
  if (got > 0) fail(fmt::format("goes on after {} bytes, expected its end", position_));
  if (got < 0) fail(fmt::format("checksum or size is wrong ({})", zip_file_strerror(file_.get())));
  if (position_ != member_.size)
    fail(fmt::format("{} bytes, but the zip directory records {}", position_, member_.size));
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
    members_.push_back(checked_member(file, file_size, stat));
    if (!names.insert(members_.back().name).second)
      throw DataError(fmt::format("{}: member {}: occurs twice", file, members_.back().name));
  }
}

const ZipMember* ZipArchive::find(const std::string& name) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& m) { return m.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

ZipReader ZipArchive::open(const ZipMember& member) const {
  std::string origin = fmt::format("{}: member {}", path_.string(), member.name);
  zip_file* file = zip_fopen_index(archive_.get(), member.index, 0);
  if (file == nullptr) throw DataError(fmt::format("{}: cannot be opened ({})", origin, zip_strerror(archive_.get())));
  return ZipReader(std::move(origin), member, file);
}

}  // namespace foretime::data
