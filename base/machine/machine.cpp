#include "base/machine/machine.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "base/numbers.h"
#include "base/read_input.h"
#include "base/text.h"

namespace foretime {
namespace {

namespace fs = std::filesystem;

using Fields = std::map<std::string, std::string>;

/// Returns the fields of the first of the given CPUs. On ARM the model's name is outside of the processors' blocks.
Fields fields_of_cpu(const std::string& cpuinfo, const std::vector<int>& cpus) {
  std::istringstream stream(cpuinfo);
  Fields fields;
  bool wanted = true;
  for (std::string line; std::getline(stream, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto name = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
    if (name == "processor") {
      const auto number = parse_number<int>(value);
      if (fields.contains("processor") && wanted) break;
      wanted = number && (cpus.empty() || *number == cpus.front());
    }
    if (wanted) fields.emplace(name, value);
  }
  return fields;
}

void read_vectors(const std::string& flags, MachineFacts& facts) {
  std::istringstream words(flags);
  const std::set<std::string> has{std::istream_iterator<std::string>(words), {}};
  const auto set = [&](int64_t bytes, int64_t registers) {
    facts.vector_bytes = bytes;
    facts.vector_registers = registers;
  };
  if (has.contains("sse")) set(16, 16);
  if (has.contains("asimd") || has.contains("neon")) set(16, 32);
  if (has.contains("avx2")) set(32, 16);
  if (has.contains("avx512f")) set(64, 32);
}

CacheSizes read_caches(const fs::path& folder) {
  CacheSizes sizes;
  constexpr int kMost = 16;
  for (int index = 0; index < kMost; ++index) {
    const auto cache = folder / fmt::format("index{}", index);
    const auto level = parse_number<int64_t>(kernel_text(cache / "level"));
    if (!level) break;
    if (kernel_text(cache / "type") == "Instruction") continue;
    const auto bytes = cache_bytes(kernel_text(cache / "size"));
    if (*level > 3) continue;
    (*level == 1 ? sizes.l1 : *level == 2 ? sizes.l2 : sizes.l3) = bytes;
    if (const auto line = parse_number<int64_t>(kernel_text(cache / "coherency_line_size"))) sizes.line = line;
  }
  return sizes;
}

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  std::array<cpu_set_t, 16> usable{};  // Linux has at most 8192 CPUs, and a cpu_set_t 1024
  if (sched_getaffinity(0, sizeof usable, usable.data()) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE * std::ssize(usable); ++cpu)
    if (CPU_ISSET_S(cpu, sizeof usable, usable.data())) cpus.push_back(cpu);
  return cpus;
}

MachineFacts read_machine(const fs::path& root, const std::vector<int>& cpus) {
  MachineFacts facts;
  const auto fields = fields_of_cpu(kernel_text(root / "proc/cpuinfo"), cpus);
  const auto field = [&](const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  };
  facts.cpu = field("model name");
  facts.family = parse_number<int64_t>(field("cpu family"));
  facts.model = parse_number<int64_t>(field("model"));
  read_vectors(field("flags") + " " + field("Features"), facts);
  facts.clock.now = parse_number<double>(field("cpu MHz"));

  const auto folder = root / "sys/devices/system/cpu";
  const auto of_cpu = [&](int cpu) { return folder / fmt::format("cpu{}", cpu); };
  std::set<std::pair<std::string, std::string>> cores;  // package, core
  for (const int cpu : cpus) {
    const auto topology = of_cpu(cpu) / "topology";
    auto core = kernel_text(topology / "core_id");
    if (core.empty()) core = fmt::format("cpu{}", cpu);
    cores.emplace(kernel_text(topology / "physical_package_id"), std::move(core));
  }
  facts.threads = std::max<int64_t>(1, std::ssize(cpus));
  facts.cores = std::max<int64_t>(1, std::ssize(cores));
  if (cpus.empty()) return facts;
  facts.caches = read_caches(of_cpu(cpus.front()) / "cache");
  const auto mhz = [&](const char* name) -> std::optional<double> {
    const auto khz = parse_number<double>(kernel_text(of_cpu(cpus.front()) / "cpufreq" / name));
    return khz ? std::optional(*khz / 1e3) : std::nullopt;
  };
  facts.clock.base = mhz("base_frequency");
  facts.clock.highest = mhz("cpuinfo_max_freq");
  return facts;
}

CacheSizes caches_of_processor() {
  const auto size = [](int name) -> std::optional<int64_t> {
    const auto bytes = sysconf(name);
    return bytes > 0 ? std::optional<int64_t>(bytes) : std::nullopt;
  };
  return {size(_SC_LEVEL1_DCACHE_SIZE), size(_SC_LEVEL2_CACHE_SIZE), size(_SC_LEVEL3_CACHE_SIZE),
          size(_SC_LEVEL1_DCACHE_LINESIZE)};
}

std::optional<int64_t> cache_bytes(std::string_view text) {
  auto word = trimmed(text);
  int64_t unit = 1;
  if (!word.empty() && (word.back() == 'K' || word.back() == 'M')) {
    unit = word.back() == 'K' ? 1024 : 1024 * 1024;
    word.pop_back();
  }
  const auto number = parse_number<int64_t>(word);
  return number && *number > 0 && *number < (int64_t{1} << 40) ? std::optional(*number * unit) : std::nullopt;
}

std::optional<double> busy_seconds(std::string_view proc_stat, double ticks_a_second) {
  if (!proc_stat.starts_with("cpu ")) return std::nullopt;
  std::istringstream fields(std::string(proc_stat.substr(4, proc_stat.find('\n') - 4)));
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user
  constexpr int kFields = 8, kIdle = 3, kWaiting = 4;
  double ticks = 0;
  for (int i = 0; i < kFields; ++i) {
    double value = 0;
    if (!(fields >> value)) return std::nullopt;
    if (i != kIdle && i != kWaiting) ticks += value;
  }
  return ticks / ticks_a_second;
}

std::optional<int64_t> oom_kills(const std::filesystem::path& root) {
  std::istringstream cgroups(kernel_text(root / "proc/self/cgroup"));
  for (std::string line; std::getline(cgroups, line);) {  // NUMBER:CONTROLLERS:/PATH; version 2 names no controllers
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size()) continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    const auto folder = root / "sys/fs/cgroup" / (unified ? "" : "memory") / line.substr(second + 2);
    std::istringstream events(kernel_text(folder / (unified ? "memory.events" : "memory.oom_control")));
    int64_t count = 0;
    for (std::string word; events >> word;)
      if (word == "oom_kill" && events >> count) return count;
  }
  return std::nullopt;
}

std::optional<int64_t> available_memory(std::string_view meminfo) {
  constexpr std::string_view kName = "MemAvailable:";
  const auto at = meminfo.find(kName);
  if (at == std::string_view::npos) return std::nullopt;
  const auto rest = meminfo.substr(at + kName.size());
  const auto kib = parse_number<int64_t>(trimmed(rest.substr(0, rest.find("kB"))));
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

}  // namespace foretime
