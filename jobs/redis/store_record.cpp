#include "jobs/redis/store_record.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/numbers.h"
#include "jobs/redis/bounded_text.h"
#include "jobs/redis/embedded_redis.h"

namespace foretime::jobs {
namespace {

constexpr char kNewRecordFile[] = "written.new";
constexpr std::string_view kFirstLine = "foretime-store 1\n";
constexpr size_t kLongestText = 8 << 10;  // most bytes of a manifest or record, which have a few lines
constexpr int kHexadecimal = 16;

Descriptor open_at(int folder, const char* name, int flags) {
  return Descriptor(openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
}

/// Reads a whole file into `bytes`; empty where it cannot be read or is as long as that or longer.
std::optional<std::string_view> read_text(int folder, const char* name, std::span<char> bytes) {
  const auto file = open_at(folder, name, O_RDONLY);
  if (file.get() < 0) return std::nullopt;
  const ssize_t size = pread(file.get(), bytes.data(), bytes.size(), 0);
  if (size < 0 || size >= std::ssize(bytes)) return std::nullopt;
  return std::string_view(bytes.data(), size);
}

/// Takes the first line off `text`, without its end.
std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

Descriptor open_data(int folder, const RecordedFile& file) {
  const auto appended = open_at(folder, kAppendOnlyFolder, O_RDONLY | O_DIRECTORY);
  return open_at(appended.get(), file.name.data(), O_RDONLY);
}

/// Returns the size of a file in bytes; -1: there is none.
int64_t size_of(int folder, const RecordedFile& file) {
  const auto data = open_data(folder, file);
  struct stat found {};
  return data.get() >= 0 && fstat(data.get(), &found) == 0 ? found.st_size : -1;
}

/// Extends the checksum to all `bytes`; false where the file cannot be read so far.
bool sum(int folder, RecordedFile& file) {
  if (file.summed_bytes == file.bytes) return true;
  const auto data = open_data(folder, file);
  std::array<std::byte, 64 << 10> piece;
  while (file.summed_bytes < file.bytes) {
    const auto wanted = std::min<int64_t>(file.bytes - file.summed_bytes, std::ssize(piece));
    const ssize_t got = TEMP_FAILURE_RETRY(pread(data.get(), piece.data(), wanted, file.summed_bytes));
    if (got <= 0) return false;
    file.checksum.add(std::span(piece).first(got));
    file.summed_bytes += got;
  }
  return true;
}

bool replace_record(int folder, std::string_view text) {
  const auto file = open_at(folder, kNewRecordFile, O_WRONLY | O_CREAT | O_TRUNC);
  return file.get() >= 0 && write(file.get(), text.data(), text.size()) == std::ssize(text) && fsync(file.get()) == 0 &&
         renameat(folder, kNewRecordFile, folder, kStoreRecordFile) == 0 && fsync(folder) == 0;
}

/// A line of `written`.
struct RecordedLine {
  std::string name{};
  char type = 'i';
  int64_t sequence = 0, bytes = 0;
  uint64_t checksum = 0;
};

/// Takes one word off a line, up to the next blank, as a number; false where it is none.
template <class Value>
bool take_value(std::string_view& line, Value& value, int base) {
  const auto end = line.find(' ');
  const auto number = parse_number<Value>(line.substr(0, end), base);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  value = number.value_or(0);
  return number.has_value();
}

std::optional<RecordedLine> parse_line(std::string_view line) {
  RecordedLine found;
  if (line.size() < 2 || (line[0] != 'b' && line[0] != 'i') || line[1] != ' ') return std::nullopt;
  found.type = line[0];
  line.remove_prefix(2);
  if (!take_value(line, found.sequence, 10)) return std::nullopt;
  const auto end = line.find(' ');
  if (end == std::string_view::npos || end == 0 || end >= RecordedFile().name.size()) return std::nullopt;
  found.name = line.substr(0, end);
  line.remove_prefix(end + 1);
  const bool sound = take_value(line, found.bytes, 10) && take_value(line, found.checksum, kHexadecimal);
  return sound && line.empty() && found.bytes >= 0 ? std::optional(found) : std::nullopt;
}

int64_t base_sequence(const AppendOnlyManifest& manifest) {
  int64_t newest = 0;
  for (const auto& file : manifest)
    if (file.type == 'b') newest = std::max(newest, file.sequence);
  return newest;
}

/// Returns what is wrong with a file that must be there; "" where nothing is. Reads it up to the length in `line`.
std::string difference(const EmbeddedFolder& folder, const RecordedLine& line, RecordedFile& file) {
  std::ranges::copy(line.name, file.name.begin());
  file.type = line.type;
  file.sequence = line.sequence;
  file.bytes = line.bytes;
  const auto path = fmt::format("{}/{}", kAppendOnlyFolder, line.name);
  const int64_t size = size_of(folder.descriptor(), file);
  if (size < 0) return fmt::format("{} is missing, which had {} bytes", path, line.bytes);
  if (size < line.bytes) return fmt::format("{} has {} bytes, expected at least {}", path, size, line.bytes);
  if (!sum(folder.descriptor(), file)) folder.fail_of(path + " cannot be read", errno);
  if (file.checksum.value() == line.checksum) return "";
  return fmt::format("the first {} bytes of {} are not those that were written", line.bytes, path);
}

}  // namespace

ino_t manifest_inode(int folder) {
  struct stat found {};
  return fstatat(folder, kAofManifest, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_ino : 0;
}

bool StoreRecord::measure(int folder) {
  StoreRecord now;
  now.saved_ = saved_;
  now.manifest_ = manifest_inode(folder);
  std::array<char, kLongestText> bytes;
  auto text = read_text(folder, kAofManifest, bytes);
  if (!text || now.manifest_ == 0) return false;
  while (!text->empty()) {
    const auto text_line = take_line(*text);
    if (text_line.starts_with('#')) continue;
    const auto line = parse_manifest_line(text_line);
    if (!line) return false;
    if (line->type == 'h') continue;
    RecordedFile file;
    if (now.file_count_ == kMostFiles || line->name.size() >= file.name.size()) return false;
    std::ranges::copy(line->name, file.name.begin());
    for (const auto& known : files())
      if (known.name == file.name) file = known;
    file.sequence = line->sequence;
    file.type = line->type;
    file.bytes = size_of(folder, file);
    if (file.bytes < file.summed_bytes) return false;
    now.files_[now.file_count_++] = file;
  }
  if (manifest_inode(folder) != now.manifest_) return false;
  *this = now;
  return true;
}

bool StoreRecord::is_current(int folder) const {
  return manifest_inode(folder) == manifest_ &&
         std::ranges::all_of(files(), [&](const auto& file) { return size_of(folder, file) == file.bytes; });
}

bool StoreRecord::may_be_loaded(int folder) const {
  if (manifest_ == 0) return true;
  return manifest_inode(folder) == manifest_ &&
         std::ranges::all_of(files(), [&](const auto& file) { return size_of(folder, file) >= file.bytes; });
}

bool StoreRecord::save(int folder) {
  BoundedText<kLongestText> text;
  text.add(kFirstLine);
  for (auto& file : std::span(files_).first(file_count_)) {
    if (!sum(folder, file)) return false;
    text.add(std::string_view(&file.type, 1));
    text.add(" ");
    text.add(file.sequence);
    text.add(" ");
    text.add(file.name.data());
    text.add(" ");
    text.add(file.bytes);
    text.add(" ");
    text.add(file.checksum.value(), kHexadecimal);
    text.add("\n");
  }
  const auto sum_of_text = checksum_of(std::span(text.text()));
  if (sum_of_text == saved_) return true;
  // Redis syncs the names of new files only after it has renamed its manifest.
  const auto names = open_at(folder, kAppendOnlyFolder, O_RDONLY | O_DIRECTORY);
  if (names.get() < 0 || fsync(names.get()) != 0 || !replace_record(folder, text.text())) return false;
  saved_ = sum_of_text;
  return true;
}

StoreRecord checked_record(const EmbeddedFolder& folder, const std::optional<AppendOnlyManifest>& manifest,
                           std::vector<std::string>& missing) {
  StoreRecord record;
  struct stat found {};
  if (fstatat(folder.descriptor(), kStoreRecordFile, &found, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return record;
    folder.fail_of(fmt::format("{} cannot be examined", kStoreRecordFile), errno);
  }
  std::array<char, kLongestText> bytes;
  auto text = read_text(folder.descriptor(), kStoreRecordFile, bytes);
  if (!text || !text->starts_with(kFirstLine)) {
    missing.push_back(fmt::format("{} cannot be read, which says how much was written", kStoreRecordFile));
    return record;
  }
  record.saved_ = checksum_of(std::span(*text));
  text->remove_prefix(kFirstLine.size());
  std::vector<RecordedLine> lines;
  while (!text->empty()) {
    const auto line = parse_line(take_line(*text));
    if (line && std::ssize(lines) < StoreRecord::kMostFiles) {
      lines.push_back(*line);
    } else {
      missing.push_back(
          fmt::format("line {} of {} is damaged, which says how much was written", lines.size() + 2, kStoreRecordFile));
      return record;
    }
  }
  if (manifest_inode(folder.descriptor()) == 0) {
    const bool any = fstatat(folder.descriptor(), kAppendOnlyFolder, &found, AT_SYMLINK_NOFOLLOW) == 0;
    missing.push_back(fmt::format("{} is missing", any ? kAofManifest : kAppendOnlyFolder));
  }
  if (!manifest) return record;  // Redis reports what is wrong with a manifest that it cannot read
  const auto named = [&](const RecordedLine& line) {
    return std::ranges::any_of(*manifest, [&](const auto& file) { return file.type != 'h' && file.name == line.name; });
  };
  int64_t base = 0;
  for (const auto& line : lines)
    if (line.type == 'b') base = std::max(base, line.sequence);
  const bool replaced = base_sequence(*manifest) > base;
  for (const auto& line : lines) {
    if (!named(line) && replaced) continue;
    RecordedFile file;
    auto wrong = difference(folder, line, file);
    if (wrong.empty() && !named(line)) wrong = fmt::format("{} does not name {}", kAofManifest, line.name);
    if (wrong.empty()) record.files_[record.file_count_++] = file;
    else missing.push_back(std::move(wrong));
  }
  return record;
}

}  // namespace foretime::jobs
