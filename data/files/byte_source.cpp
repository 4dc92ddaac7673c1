#include "data/files/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace foretime::data {
namespace {

constexpr size_t kInputBytes = size_t{64} << 10;
constexpr uint8_t kGzipMagic[] = {0x1f, 0x8b};

}  // namespace

ByteSource::ByteSource(const std::filesystem::path& file) : file_(file), input_(kInputBytes) {
  if (files().is_folder(file)) throw DataError("{}: a folder, expected a file", file.string());
  stream_.reset(std::fopen(file.c_str(), "rb"));
  if (!stream_ && is_storage_failure(errno)) throw_file_error(file, "cannot be read", errno);
  if (!stream_) throw DataError("{}: cannot be read: {}", file.string(), std::strerror(errno));
  read_input();
  gzip_ = input_end_ >= 2 && std::to_integer<uint8_t>(input_[0]) == kGzipMagic[0] &&
          std::to_integer<uint8_t>(input_[1]) == kGzipMagic[1];
}

bool ByteSource::read_input() {
  const size_t count = std::fread(input_.data(), 1, input_.size(), stream_.get());
  if (count == 0 && std::ferror(stream_.get())) throw_file_error(file_, "cannot be read", errno);
  input_begin_ = 0;
  input_end_ = count;
  return count > 0;
}

size_t ByteSource::read_plain(std::byte* out, size_t room) {
  if (input_begin_ == input_end_ && !read_input()) return 0;
  const size_t count = std::min(room, input_end_ - input_begin_);
  std::memcpy(out, input_.data() + input_begin_, count);
  input_begin_ += count;
  return count;
}

size_t ByteSource::read_gzip(std::byte* out, size_t room) {
  while (true) {
    const bool more = input_begin_ != input_end_ || read_input();
    if (!more && !inflater_) return 0;
    if (!inflater_) inflater_ = std::make_unique<Inflater>(Inflater::Format::gzip);
    const auto step =
        inflater_->inflate(std::span(input_).subspan(input_begin_, input_end_ - input_begin_), std::span(out, room));
    const bool stuck = step.consumed == 0 && step.produced == 0 && !step.ended;
    if (stuck && !more)
      throw DataError("{}: gzip data end after {} decompressed bytes, expected more; was the file copied completely?",
                      file_.string(), produced_);
    if (step.damaged || stuck)
      throw DataError("{}: gzip data are damaged after {} decompressed bytes", file_.string(), produced_);
    input_begin_ += step.consumed;
    produced_ += step.produced;
    if (step.ended) inflater_.reset();
    if (step.produced > 0) return step.produced;
  }
}

size_t ByteSource::read(std::byte* out, size_t room) {
  return room == 0 ? 0 : gzip_ ? read_gzip(out, room) : read_plain(out, room);
}

std::string ByteSource::read_text(size_t bytes) {
  constexpr size_t kPiece = size_t{1} << 20;  // limits memory to the existing bytes
  std::string text;
  size_t filled = 0;
  for (size_t got = 1; got > 0 && filled < bytes; filled += got) {
    if (filled == text.size()) text.resize(std::min(bytes, std::max(2 * filled, kPiece)));
    got = read(reinterpret_cast<std::byte*>(text.data()) + filled, text.size() - filled);
  }
  text.resize(filled);
  return text;
}

}  // namespace foretime::data
