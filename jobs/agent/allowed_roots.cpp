#include "jobs/agent/allowed_roots.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/glob.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPath = 4096;
constexpr int kLinks = 40;            // the kernel's limit
constexpr size_t kExpansions = 1024;  // brace expansions of one pattern
constexpr const char* kSpecial = "*?[{\\";

[[noreturn]] void refuse(const std::string& what, const std::string& path, const std::string& why) {
  throw JobsError("{}: {}: {}", what, path.substr(0, 300), why);
}

/// Throws the error of a part of a path that the system cannot resolve: a failure of the machine or of the path.
[[noreturn]] void fail_at(const std::string& what, const fs::path& path, const fs::path& part, int error) {
  if (is_storage_failure(error)) throw_file_error(part, fmt::format("{}: cannot be examined", what), error);
  if (error == ENOMEM) throw NodeError("{}: {}: {}", what, part.string(), std::strerror(error));
  refuse(what, path.string(), std::strerror(error));
}

/// Resolves every link and .. as the kernel does, also a link to a missing file, unlike weakly_canonical.
fs::path resolve(const std::string& what, const fs::path& path) {
  std::deque<std::string> rest;
  const auto push_front = [&](const fs::path& more) {
    std::vector<std::string> parts;
    for (const auto& part : more.relative_path()) parts.push_back(part.string());
    rest.insert(rest.begin(), parts.begin(), parts.end());
  };
  push_front(path);
  fs::path real = "/";
  int links = 0;
  bool exists = true;
  while (!rest.empty()) {
    const std::string part = rest.front();
    rest.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!exists) refuse(what, path.string(), "leads through a folder that does not exist with '..'");
      real = real.parent_path();
      continue;
    }
    const auto next = real / part;
    struct stat found {};
    if (exists && lstat(next.c_str(), &found) != 0) {
      if (errno != ENOENT) fail_at(what, path, next, errno);
      exists = false;
    }
    if (!exists || !S_ISLNK(found.st_mode)) {
      real = next;
      continue;
    }
    if (++links > kLinks) refuse(what, path.string(), "too many symbolic links, or a loop of them");
    std::error_code failure;
    const fs::path target = fs::read_symlink(next, failure);
    if (failure) fail_at(what, path, next, failure.value());
    if (target.empty()) refuse(what, path.string(), "a symbolic link that cannot be read");
    if (target.is_absolute()) real = "/";
    push_front(target);
  }
  return real;
}

}  // namespace

std::string trouble_of_root(Files& files, const std::string& what, const fs::path& root) {
  try {
    if (!files.is_folder(root)) return fmt::format("{} {}: is not there", what, root.string());
    if (files.is_empty(root)) return fmt::format("{} {}: is empty; is it mounted?", what, root.string());
    return "";
  } catch (const FileError& error) {
    return fmt::format("{} {}: {}", what, root.string(), error.what());
  }
}

fs::path allowed_path(const std::string& what, const fs::path& path, const fs::path& base,
                      const std::vector<fs::path>& roots) {
  const auto& text = path.native();
  if (text.empty()) refuse(what, "", "is empty, expected a path");
  if (text.size() >= kLongestPath)
    refuse(what, text, fmt::format("{} bytes, at most {}", text.size(), kLongestPath - 1));
  if (text.find('\0') != std::string::npos) refuse(what, "", "holds a zero byte");
  const auto real = resolve(what, fs::absolute(base / path));
  std::string names;
  for (const auto& root : roots) {
    if (is_inside(real, resolve(what, fs::absolute(root)))) return real;
    names.append(names.empty() ? "" : ", ").append(root.string());
  }
  refuse(
      what, text,
      fmt::format("{}lies outside of the agent's roots, expected a path in {}",
                  real == path ? "" : "resolves to " + real.string() + ", which ",
                  names.empty() ? "a data root (it has none: --data-root)" : names + " (see the agent's --data-root)"));
}

std::string allowed_pattern(const std::string& what, const std::string& pattern, const fs::path& base,
                            const std::vector<fs::path>& roots) {
  if (pattern.size() >= kLongestPath)
    refuse(what, pattern, fmt::format("{} bytes, at most {}", pattern.size(), kLongestPath - 1));
  const auto special = pattern.find_first_of(kSpecial);
  if (special == std::string::npos) return allowed_path(what, pattern, base, roots).string();
  const auto slash = pattern.rfind('/', special);
  const auto head = slash == std::string::npos ? std::string(".") : pattern.substr(0, slash + 1);
  const auto rest = slash == std::string::npos ? pattern : pattern.substr(slash + 1);
  if (rest.find('\\') != std::string::npos) refuse(what, pattern, "holds a backslash");
  try {
    for (const fs::path one : expand_braces(rest, kExpansions))
      if (std::find(one.begin(), one.end(), "..") != one.end())
        refuse(what, pattern, "'..' after the first of * ? [ {, expected none");
  } catch (const DataError& error) {
    throw JobsError("{}: {}", what, std::string(error.what()).substr(0, 300));
  }
  return (allowed_path(what, head, base, roots) / rest).string();
}

}  // namespace foretime::jobs
