#include "base/process.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

#include "base/read_input.h"

namespace foretime {

std::string find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return name;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const auto candidate = std::filesystem::path(path.substr(begin, end - begin)) / name;
    std::error_code failure;
    if (candidate.is_absolute() && access(candidate.c_str(), X_OK) == 0 &&
        !std::filesystem::is_directory(candidate, failure))
      return candidate.string();
    begin = end + 1;
  }
  return "";
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  return find_program(name, path == nullptr ? "/usr/bin:/bin" : path);
}

std::vector<char*> exec_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "unknown";
}

std::string boot_id() { return kernel_text("/proc/sys/kernel/random/boot_id"); }

ProcessUsage process_usage() {
  constexpr double kBytesOfMib = 1 << 20, kMicrosecond = 1e-6;
  ProcessUsage usage;
  int64_t pages = 0, resident = 0;
  if (std::istringstream(kernel_text("/proc/self/statm")) >> pages >> resident)
    usage.memory_mib = static_cast<double>(resident) * sysconf(_SC_PAGESIZE) / kBytesOfMib;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  for (const auto& time : {used.ru_utime, used.ru_stime})
    usage.cpu_seconds += time.tv_sec + kMicrosecond * time.tv_usec;
  return usage;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace foretime
