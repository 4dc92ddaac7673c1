#include "data/frontends/loops/machines.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "configs/machine_file.h"
#include "data/frontends/loops/loop_graph.h"

namespace foretime::data {

Machines::Machines(std::vector<Machine> machines) : machines_(std::move(machines)) {
  std::set<std::string_view> names, targets;
  for (const Machine& machine : machines_) {
    if (!names.insert(machine.name).second)
      throw DataError("two machines are named {}, expected a different name for each", machine.name);
    for (const auto& target : machine.targets)
      if (!targets.insert(target).second)
        throw DataError("machine {}: target '{}' is listed for another machine, too", machine.name, target);
  }
}

std::string_view model_of_target(std::string_view target) {
  constexpr std::string_view kOption = "-model=";
  const size_t at = target.find(kOption);
  if (at == std::string_view::npos) return {};
  const auto name = target.substr(at + kOption.size());
  return name.substr(0, name.find(' '));
}

const Machine* Machines::find(std::string_view target) const {
  const auto name = model_of_target(target);
  for (const Machine& machine : machines_)
    if ((!name.empty() && machine.name == name) || std::ranges::find(machine.targets, target) != machine.targets.end())
      return &machine;
  return nullptr;
}

std::string Machines::unknown(std::string_view target) const {
  if (find(target) != nullptr) return "";
  const auto name = model_of_target(target);
  if (!name.empty() && name != "unknown") return std::string(name);
  if (!is_gpu_target(target)) return machines_.empty() ? "" : "a CPU that its target does not name by -model=";
  if (named_architecture(target) != nullptr) return "";
  return fmt::format("a {} GPU, taken for {}", target.substr(0, target.find(' ')), architecture_of_target(target).name);
}

Hardware Machines::hardware_of(std::string_view target, const HardwareParameters& parameters) const {
  const Machine* machine = find(target);
  const bool gpu = is_gpu_target(target);
  if (machine != nullptr && machine->hardware.is_gpu() != gpu)
    throw DataError(
        "target '{:.200}' is that of a {}, but machine {} is a {}; "
        "correct the machine file (only a GPU has multiprocessors) or the target",
        target, gpu ? "GPU" : "CPU", machine->name, gpu ? "CPU" : "GPU");
  if (gpu) {
    if (machine == nullptr) return gpu_of_target(target, parameters);
    Hardware hardware = machine->hardware;
    if (parameters.threads_per_block > 0) hardware.gpu.threads_per_block = parameters.threads_per_block;
    if (parameters.shared_memory_per_block > 0)
      hardware.gpu.shared_bytes_per_block = parameters.shared_memory_per_block;
    return hardware;
  }
  Hardware compiled = hardware_of_target(target, parameters.cores);
  if (machine == nullptr) return compiled;
  Hardware hardware = machine->hardware;
  hardware.vector_bytes = std::min(hardware.vector_bytes, compiled.vector_bytes);
  hardware.vector_registers = std::min(hardware.vector_registers, compiled.vector_registers);
  hardware.cores = compiled.cores;
  const double narrower = static_cast<double>(hardware.vector_bytes) / machine->hardware.vector_bytes;
  hardware.multiply_add_gflop_s *= narrower;
  hardware.all_multiply_add_gflop_s *= narrower;
  const auto share = [&](double one, double& all) {  // of the machine's cores, this program has some
    if (hardware.cores < machine->hardware.cores) all = std::min(all, one * hardware.cores);
  };
  share(hardware.multiply_add_gflop_s, hardware.all_multiply_add_gflop_s);
  share(hardware.copy_gb_s, hardware.all_copy_gb_s);
  return hardware;
}

Hardware Machines::hardware_of_tir(std::string_view target) const {
  if (is_gpu_target(target))
    throw DataError("target '{:.200}': expected one for CPUs, since threads of GPUs are not read from TIR", target);
  return hardware_of(target, {.cores = target_number(target, "-num-cores").value_or(1)});
}

Machines read_machines(const std::vector<std::string>& paths, const std::filesystem::path& root) {
  std::vector<Machine> machines;
  for (const auto& path : paths) {
    auto file = configs::read_machine_file(root / path);
    machines.push_back({std::move(file.name), std::move(file.targets), hardware_of(file.hardware)});
  }
  return Machines(std::move(machines));
}

}  // namespace foretime::data
