#include "base/atomic_file.h"

#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/partial_files.h"

namespace foretime {
namespace {

constexpr size_t kBuffer = 1 << 18;

}  // namespace

namespace fs = std::filesystem;

AtomicFile::AtomicFile(fs::path path, Leftovers old) : path_(std::move(path)) {
  constexpr int kTurns = 100;                 // retries if another process removes the new temporary file as dead
  for (int attempt = 0; !file_; ++attempt) {  // another container's process may have this one's id
    aside_ = path_;
    aside_ += fmt::format(".{}-{}{}", ::getpid(), attempt, kAsideSuffix);
    file_ = files().open(aside_, Files::Open::create);
    if (file_ && old == Leftovers::remove && descriptor() >= 0 && attempt < kTurns &&
        !lock_partial_file(descriptor(), aside_))
      file_.reset();
  }
  if (old == Leftovers::remove) remove_dead_partial_files(path_, descriptor());
}

AtomicFile::~AtomicFile() {
  if (!file_) return;
  file_.reset();
  try {
    files().remove(aside_);
  } catch (const FileError&) {
    // The failure that leads here is the one to tell.
  }
}

void AtomicFile::write(std::string_view bytes) {
  buffer_.append(bytes);
  if (buffer_.size() >= kBuffer) flush();
}

void AtomicFile::seek(uint64_t offset) {
  flush();
  file_->seek(offset);
}

void AtomicFile::flush() {
  file_->write(buffer_);
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  file_->sync();
  files().rename(aside_, path_);
  file_.reset();
  files().sync_folder(path_.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view bytes, AtomicFile::Leftovers old) {
  AtomicFile file(path, old);
  file.write(bytes);
  file.commit();
}

void write_whole(const fs::path& path, std::string_view bytes) {
  const auto file = files().open(path, Files::Open::replace);
  file->write(bytes);
  file->close();
}

void write_synced(const fs::path& path, std::string_view bytes) {
  const auto file = files().open(path, Files::Open::replace);
  file->write(bytes);
  file->sync();
}

void create_folders_synced(const fs::path& path) {
  if (path.empty() || path == path.root_path() || files().is_folder(path)) return;
  const auto above = path.parent_path();
  create_folders_synced(above);
  files().create_folders(path);
  files().sync_folder(above.empty() ? "." : above);
}

void replace_folder(const fs::path& aside, const fs::path& path) {
  files().sync_folder(aside);
  auto old = aside;
  if (!files().exists(path)) {
    files().rename(aside, path);
  } else if (!files().exchange(aside, path)) {
    old = path;
    old += fmt::format(".old-{}{}", ::getpid(), kAsideSuffix);
    files().remove(old);
    files().rename(path, old);
    files().rename(aside, path);
  }
  // Before the old one loses its files: after a loss of power the name may still be its own.
  files().sync_folder(path.parent_path());
  files().remove(old);
}

void remove_folder(const fs::path& path) {
  auto aside = path;
  aside += fmt::format(".old-{}{}", ::getpid(), kAsideSuffix);
  files().rename(path, aside);
  files().sync_folder(path.parent_path());
  files().remove(aside);
}

}  // namespace foretime
