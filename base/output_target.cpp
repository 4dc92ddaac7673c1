#include "base/output_target.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/files.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr size_t kEndBytes = 1 << 16;

/// The first and the last bytes of a file, at most kEndBytes of each.
struct Ends {
  std::string first, last;
  int64_t bytes = -1;  // -1: it cannot be opened or is no regular file
};

/// Throws StorageError.
Ends ends_of(const fs::path& file) {
  Ends ends;
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  const auto read = [&](int64_t offset) {
    std::string text(kEndBytes, '\0');
    const ssize_t got = TEMP_FAILURE_RETRY(::pread(opened.get(), text.data(), text.size(), offset));
    if (got < 0 && is_storage_failure(errno)) throw_file_error(file, "cannot be read", errno);
    text.resize(std::max<ssize_t>(got, 0));
    return text;
  };
  if (opened.get() < 0 && is_storage_failure(errno)) throw_file_error(file, "cannot be read", errno);
  if (opened.get() < 0 || ::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) return ends;
  ends.bytes = status.st_size;
  ends.first = read(0);
  ends.last = read(std::max<int64_t>(0, ends.bytes - static_cast<int64_t>(kEndBytes)));
  return ends;
}

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return text.starts_with(beginning); });
}
bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

struct KnownKind {
  FileKind kind;
  const char* name;
  bool is_text;  // devices and pipes accept it
  bool (*recognises)(const Ends& ends);
};

/// Each writer keeps the mark by which its files are recognised here.
constexpr std::array kKinds = {
    KnownKind{FileKind::collection, "a packed data set", false,
              [](const Ends& ends) {
                return ends.first.starts_with(
                    "\x89"
                    "FTPACK\n");
              }},
    KnownKind{FileKind::bundle, "a bundle (a model)", false,
              [](const Ends& ends) {  // a safetensors header: eight bytes of its length, then JSON with our metadata
                return ends.first.size() > 9 && ends.first[8] == '{' && contains(ends.first, "\"foretime-bundle\"");
              }},
    KnownKind{FileKind::torchscript, "a TorchScript model", false,
              [](const Ends& ends) {
                return ends.first.starts_with("PK\3\4") && contains(ends.last, "/extra/manifest.json");
              }},
    KnownKind{FileKind::ranking, "a ranking", true,
              [](const Ends& ends) {
                return begins_with_any(ends.first, {"group,rank,candidate,", "set,group,rank,candidate,",
                                                    "ID,TopConfigs\n", "[\n  {\n    \"group\": "});
              }},
    KnownKind{FileKind::report, "a report", true,
              [](const Ends& ends) {
                return ends.first.starts_with("<!doctype html>") && contains(ends.first, kReportMark);
              }},
    KnownKind{FileKind::machine, "a machine's description", true,
              [](const Ends& ends) {
                return begins_with_any(ends.first, {"name: ", "{\n  \"name\": "}) &&
                       contains(ends.first, "multiply_add_gflop_s");
              }},
    KnownKind{FileKind::experiment, "a table of an experiment", true,
              [](const Ends& ends) {
                return begins_with_any(ends.first, {"entry,kind,fraction,seed,", "entry,fraction,seed,group,",
                                                    "entry,seed,group,id,", "ID,TopConfigs\n"}) ||
                       contains(ends.first, kExperimentMark) || contains(ends.last, kExperimentMark);
              }},
};

const KnownKind& known(FileKind kind) { return *std::ranges::find(kKinds, kind, &KnownKind::kind); }

/// Returns the kind of a file for messages.
std::string description_of(const Ends& ends) {
  for (const auto& kind : kKinds)
    if (kind.recognises(ends)) return kind.name;
  if (ends.bytes < 0) return "a file that cannot be read";
  const char* what = "a text file";
  if (ends.first.starts_with("#!")) what = "a script";
  else if (ends.first.starts_with("PK\3\4")) what = "a .npz or another zip file";
  else if (ends.first.starts_with("\x1f\x8b")) what = "a gzip file";
  else if (contains(ends.first, "\0"sv)) what = "a binary file";
  return fmt::format("{} of {} bytes", what, ends.bytes);
}

/// /dev/stdout and its like name whatever the shell has opened: it is written to, not replaced.
bool is_open_file(const fs::path& path) {
  const auto name = path.lexically_normal().string();
  return name == "/dev/stdout" || name == "/dev/stderr" ||
         begins_with_any(name, {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"});
}

bool is_written_in_place(const fs::path& path, const fs::file_status& status) {
  return is_open_file(path) || (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status));
}

fs::file_status status_of(const fs::path& path) {
  std::error_code failure;
  const auto status = fs::status(path, failure);
  if (failure && is_storage_failure(failure.value())) throw_file_error(path, "cannot be examined", failure.value());
  return status;
}

}  // namespace

bool is_of_kind(const fs::path& file, FileKind kind) { return known(kind).recognises(ends_of(file)); }

void expect_replaceable(const std::string& option, const fs::path& output, FileKind kind, bool force,
                        const std::vector<fs::path>& inputs) {
  const auto name = option.empty() ? output.string() : option + " " + output.string();
  const auto status = status_of(output);
  if (fs::is_directory(status)) throw OutputRefused("{}: is a folder, expected a file to write", name);
  if (is_written_in_place(output, status)) {
    if (!known(kind).is_text)
      throw OutputRefused("{}: is a device, a pipe or an open file, expected a file to write {} to", name,
                          known(kind).name);
    return;
  }
  if (!fs::exists(status) || force) return;
  for (const auto& input : inputs) {
    std::error_code missing;  // reading the input will say so
    if (fs::equivalent(output, input, missing))
      throw OutputRefused("{}: is an input of this command ({}); name another file, or replace it with --force", name,
                          input.string());
  }
  const auto ends = ends_of(output);
  if (ends.bytes == 0 || known(kind).recognises(ends)) return;
  throw OutputRefused(
      "{}: exists and is {}, which this command does not replace; name another file, or replace it with --force", name,
      description_of(ends));
}

void write_output(const fs::path& output, std::string_view text) {
  if (!is_written_in_place(output, status_of(output)))
    return write_file_atomically(output, text, AtomicFile::Leftovers::remove);
  // What a shell has opened with >> keeps what it holds.
  const auto file = files().open(output, Files::Open::append);
  file->write(text);
  file->close();
}

}  // namespace foretime
