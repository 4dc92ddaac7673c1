#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "base/machine/machine.h"
#include "base/machine/rates.h"
#include "base/message.h"
#include "base/numbers.h"
#include "base/output_target.h"
#include "base/process.h"
#include "base/read_input.h"
#include "base/text.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "configs/settings_error.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TargetArguments {
  std::string name, output;
  bool json = false, force = false;
  int64_t runs = 15, copy_mib = 0;
  double seconds = 0.1;
};

constexpr double kGiga = 1e9;
constexpr int64_t kMib = int64_t{1} << 20;

/// To four digits, as the shortest text that says so.
double rounded(double value) { return parse_number<double>(fmt::format("{:.4g}", value)).value_or(value); }

Json rate_json(const std::vector<double>& rates) {
  auto summary = summarize(rates);
  const auto giga = [](double rate) { return rounded(rate / kGiga); };
  return {{"median", giga(summary.median)},
          {"low", giga(summary.low)},
          {"high", giga(summary.high)},
          {"spread", rounded(summary.spread)},
          {"runs", summary.runs}};
}

/// "Intel(R) Xeon(R) CPU @ 2.2GHz", family 6, model 143: intel-xeon-cpu-6-143
std::string machine_name(const MachineFacts& facts) {
  std::string name;
  auto text = facts.cpu.substr(0, facts.cpu.find('@'));
  for (const char* mark : {"(R)", "(TM)"})
    for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.erase(at, std::string(mark).size());
  if (facts.family) text += fmt::format(" {}", *facts.family);
  if (facts.model) text += fmt::format(" {}", *facts.model);
  for (const char c : lower_case(text)) {
    if (is_letter(c) || is_digit(c)) name += c;
    else if (!name.empty() && name.back() != '-') name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "unknown" : name;
}

template <class Number>
void put(Json& json, const char* name, const std::optional<Number>& value) {
  if (value) json[name] = *value;
}

/// The keys of data.hardware; those that the system does not tell are left out.
Json hardware_json(const MachineFacts& facts) {
  Json json = {
      {"vector_bytes", facts.vector_bytes}, {"vector_registers", facts.vector_registers}, {"cores", facts.cores}};
  put(json, "l1_bytes", facts.caches.l1);
  put(json, "l2_bytes", facts.caches.l2);
  put(json, "l3_bytes", facts.caches.l3);
  return json;
}

/// Returns the bytes that each thread copies: --copy-mib, or four times the last cache (64 to 512 MiB) with both
/// buffers of all threads within a quarter of the available memory (at least 8 MiB). Throws SettingsError if two
/// buffers of --copy-mib for each thread exceed the available memory.
int64_t copy_bytes_of(const TargetArguments& arguments, const MachineFacts& facts, int64_t threads) {
  const auto memory = available_memory(kernel_text("/proc/meminfo"));
  if (arguments.copy_mib > 0) {
    const auto bytes = arguments.copy_mib * kMib;
    if (memory && 2 * threads * bytes > *memory)
      throw configs::SettingsError("--copy-mib {}: two buffers in each of {} threads, expected at most {} MiB together",
                                   arguments.copy_mib, threads, *memory / kMib);
    return bytes;
  }
  constexpr int64_t kLeast = 64 * kMib, kMost = 512 * kMib;
  const auto cache = std::max(facts.caches.l3.value_or(0), facts.caches.l2.value_or(0));
  auto bytes = std::clamp(4 * cache, kLeast, kMost);
  if (memory) bytes = std::min(bytes, std::max(8 * kMib, *memory / (8 * threads)));
  return bytes;
}

double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// CPU seconds that everything but this process used so far; absent where the system does not say.
std::optional<double> seconds_of_others() {
  const auto busy = busy_seconds(kernel_text("/proc/stat"), sysconf(_SC_CLK_TCK));
  return busy ? std::optional(*busy - own_seconds()) : std::nullopt;
}

struct MeasuredTarget {
  Json json;
  std::vector<std::string> warnings;
};

MeasuredTarget measure_target(const TargetArguments& arguments) {
  const auto cpus = usable_cpus();
  auto facts = read_machine("/", cpus);
  const auto known = caches_of_processor();
  auto& caches = facts.caches;
  for (auto [ours, theirs] : {std::pair(&caches.l1, known.l1), std::pair(&caches.l2, known.l2),
                              std::pair(&caches.l3, known.l3), std::pair(&caches.line, known.line)}) {
    if (!*ours) *ours = theirs;
  }
  MeasuredTarget target;
  auto& json = target.json;
  json["name"] = arguments.name.empty() ? machine_name(facts) : arguments.name;
  if (!facts.cpu.empty()) json["cpu"] = facts.cpu;
  json["hardware"] = hardware_json(facts);
  json["threads"] = facts.threads;
  put(json, "line_bytes", caches.line);
  Json clock;
  put(clock, "now", facts.clock.now);
  put(clock, "base", facts.clock.base);
  put(clock, "highest", facts.clock.highest);
  if (!clock.empty()) json["mhz"] = clock;

  const double begin = steady_seconds();
  const auto others = seconds_of_others();
  Json copies, multiply_adds;
  int64_t smallest = INT64_MAX;
  for (const bool all : {false, true}) {
    if (all && cpus.size() < 2) break;
    RateOptions options{
        .cpus = all ? cpus : std::vector<int>{cpus.back()}, .runs = arguments.runs, .seconds = arguments.seconds};
    const auto threads = std::ssize(options.cpus);
    options.copy_bytes = copy_bytes_of(arguments, facts, threads);
    smallest = std::min(smallest, options.copy_bytes * threads);
    const char* which = all ? "all" : "one";
    multiply_adds[which] = rate_json(multiply_add_rates(options));
    try {
      copies[which] = rate_json(copy_rates(options));
    } catch (const std::bad_alloc&) {  // a limit of this process
      throw configs::SettingsError("--copy-mib: no memory for two buffers of {} MiB in each of {} threads",
                                   options.copy_bytes / kMib, threads);
    }
  }
  json["multiply_add_gflop_s"] = multiply_adds;
  json["copy_gb_s"] = copies;
  if (caches.l3 && 2 * smallest < 4 * *caches.l3)
    target.warnings.push_back(
        fmt::format("copies are of {} MiB, and the last cache has {} MiB: "
                    "this may be its bandwidth; a larger --copy-mib measures memory",
                    smallest / kMib, *caches.l3 / kMib));
  if (others) {
    const double passed = steady_seconds() - begin;
    const double busy = std::max(0.0, seconds_of_others().value_or(*others) - *others) / passed;
    json["busy_cores_of_others"] = std::round(busy * 100) / 100;
    constexpr double kDisturbed = 0.03;
    if (busy > kDisturbed)
      target.warnings.push_back(fmt::format(
          "others kept {:.2f} cores busy meanwhile: rates may be too low; measure when nothing else runs", busy));
  }
  for (const char* name : {"l1_bytes", "l2_bytes", "l3_bytes"})
    if (!json["hardware"].contains(name))
      target.warnings.push_back(fmt::format("the system does not say {}: add it by hand", name));
  return target;
}

/// Maps of maps of plain values: one level indented, deeper ones in braces.
std::string to_yaml(const Json& json) {
  const auto flow = [](const Json& value) {
    std::string text;
    for (const auto& [name, item] : value.items())
      text += fmt::format("{}{}: {}", text.empty() ? "{" : ", ", name, item.dump());
    return text + "}";
  };
  std::string text;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) {
      text += fmt::format("{}: {}\n", name, value.dump());
      continue;
    }
    text += name + ":\n";
    for (const auto& [inner, item] : value.items())
      text += fmt::format("  {}: {}\n", inner, item.is_object() ? flow(item) : item.dump());
  }
  return text;
}

void measure(const TargetArguments& arguments) {
  if (!arguments.output.empty()) expect_replaceable("--output", arguments.output, FileKind::machine, arguments.force);
  const auto target = measure_target(arguments);
  const auto text = arguments.json ? target.json.dump(2) + "\n" : to_yaml(target.json);
  for (const auto& warning : target.warnings) print_message("foretime: {}\n", warning);
  if (arguments.output.empty()) fmt::print("{}", text);
  else write_output(arguments.output, text);
}

}  // namespace

void add_target_command(CLI::App& app) {
  auto* command = app.add_subcommand("target", "What machine tensor programs run on");
  command->require_subcommand(1);
  auto* measured = command->add_subcommand("measure",
                                           "Print what the system says of this machine, and measure how fast it "
                                           "multiplies, adds and copies; docs/how-to/describe-a-machine.md");
  const auto arguments = std::make_shared<TargetArguments>();
  typed_option(*measured, "--name", arguments->name, "Name of the machine; made of its CPU if left out", "NAME");
  typed_option(*measured, "--output,-o", arguments->output, "File to write; without it, standard output", "FILE");
  add_force_flag(*measured, arguments->force);
  measured->add_flag("--json", arguments->json, "JSON in place of YAML");
  shown_option(*measured, "--runs", arguments->runs, "Runs of each measurement", CLI::Range(3, 1000));
  shown_option(*measured, "--seconds", arguments->seconds, "Seconds that a run takes", number_range(0.001, 10.0));
  checked_option(*measured, "--copy-mib", arguments->copy_mib,
                 "MiB that each thread copies; four times the last cache, from 64 to 512, if left out",
                 CLI::Range(1, 1 << 20));
  measured->callback([arguments] { measure(*arguments); });
}

}  // namespace foretime::cli
