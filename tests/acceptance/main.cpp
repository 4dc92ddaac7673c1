/// gpu_acceptance CHECK [--device auto|cpu|cuda] [--brief] [--rows FILE] [--work DIR] [--layouts DIR] [--source DIR]
///
/// One check of what has to hold on a GPU (checks.h): each row of its result is a line of JSON on stdout, and in FILE.
/// Without a GPU, or with --device cpu, what GPUs run is run on the CPU. Exit code: 0 where everything that must hold
/// does, 1 where it does not, 2 for wrong arguments. tools/gpu_acceptance.sh runs all checks.
#include <functional>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "comm/backends/factory.h"
#include "comm/mpi/launched.h"
#include "tests/acceptance/checks.h"
#include "tests/acceptance/gpu.h"

namespace foretime::acceptance {

void check_facts(const Options& options, Rows& rows) {
  rows.fact("LibTorch", TORCH_VERSION);
  for (const auto& [name, text] : gpu_facts()) rows.fact(name, text);
  for (const auto& backend : comm::describe_backends()) rows.fact("backend", backend);
  rows.fact("checked on", options.device().name);
}

namespace {

using Check = std::function<void(const Options&, Rows&)>;

const std::map<std::string, Check>& checks() {
  static const std::map<std::string, Check> all = {
      {"facts", check_facts},           {"context", check_context},       {"models", check_models},
      {"steps", check_steps},           {"trainings", check_trainings},   {"speed", measure_steps},
      {"sums", measure_sums},           {"ranks", check_ranks},           {"nccl-refusal", check_nccl_refusal},
      {"nccl-alone", check_nccl_alone}, {"three-steps", take_three_steps}};
  return all;
}

int refuse(const std::string& why) {
  std::string names;
  for (const auto& [name, check] : checks()) names += " " + name;
  std::cerr << "gpu_acceptance: " << why << "\nusage: gpu_acceptance CHECK [--device auto|cpu|cuda] [--brief] "
            << "[--rows FILE] [--work DIR] [--layouts DIR] [--source DIR]\nchecks:" << names << "\n";
  return 2;
}

int run_check(int count, char** words) {
  Options options;
  options.source = FORETIME_SOURCE_DIR;
  options.work = std::filesystem::temp_directory_path() / "gpu_acceptance";
  std::string name, device = "auto", rows_file;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const std::map<std::string, std::function<void(const std::string&)>> values = {
        {"--device", [&](const std::string& text) { device = text; }},
        {"--rows", [&](const std::string& text) { rows_file = text; }},
        {"--work", [&](const std::string& text) { options.work = text; }},
        {"--layouts", [&](const std::string& text) { options.layouts = text; }},
        {"--source", [&](const std::string& text) { options.source = text; }}};
    if (const auto found = values.find(word); found != values.end()) {
      if (++i == count) return refuse(word + " needs a value");
      found->second(words[i]);
    } else if (word == "--brief") {
      options.brief = true;
    } else if (name.empty() && !word.starts_with("-")) {
      name = word;
    } else {
      return refuse("'" + word + "' is not known");
    }
  }
  if (!checks().contains(name)) return refuse(name.empty() ? "no check named" : "check '" + name + "' is not known");
  if (device != "auto" && device != "cpu" && device != "cuda") return refuse("--device " + device);
  options.gpu = device != "cpu" && torch::cuda::is_available();
  if (device == "cuda" && !options.gpu) return refuse("--device cuda: LibTorch finds no GPU");
  if (options.layouts.empty()) options.layouts = options.work / "layouts";
  std::filesystem::create_directories(options.work);
  // Of ranks, the first one writes.
  Rows rows(name, comm::launched_rank() > 0 ? "" : rows_file);
  try {
    checks().at(name)(options, rows);
  } catch (const comm::CommError& error) {
    std::cerr << "gpu_acceptance: " << error.what() << "\n";
    return rows.correct() && name == "nccl-refusal" ? 0 : 1;
  }
  return rows.correct() ? 0 : 1;
}

}  // namespace
}  // namespace foretime::acceptance

int main(int count, char** words) {
  try {
    return foretime::acceptance::run_check(count, words);
  } catch (const std::exception& error) {
    std::cerr << "gpu_acceptance: " << error.what() << "\n";
    return 1;
  }
}
