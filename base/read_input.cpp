#include "base/read_input.h"

#include <cerrno>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace foretime {

std::string read_input(const std::filesystem::path& file, uint64_t most) {
  try {
    if (most != UINT64_MAX)
      if (const auto size = files().size(file); size > most)
        throw DataError("{}: {} bytes, expected at most {}", file.string(), size, most);
    return files().read(file);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError& error) {
    throw DataError(error.what());
  }
}

std::string first_bytes(const std::filesystem::path& file, size_t bytes) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text(bytes, '\0');
  const ssize_t got = opened.get() < 0 ? -1 : TEMP_FAILURE_RETRY(::read(opened.get(), text.data(), text.size()));
  if (got < 0 && is_storage_failure(errno)) throw_file_error(file, "cannot be read", errno);
  text.resize(std::max<ssize_t>(got, 0));
  return text;
}

std::string kernel_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return trimmed(text.str());
}

}  // namespace foretime
