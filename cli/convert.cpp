#include "cli/convert.h"

#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "data/dataset/hlo_convert.h"
#include "data/dataset/inspect.h"

namespace foretime::cli {
namespace {

using data::HloMessage;

struct Arguments {
  std::string in, out, message = "auto";
  int64_t nodes = data::HloLimits().nodes;
};

constexpr HloMessage kMessages[] = {HloMessage::module, HloMessage::hlo, HloMessage::module_tuning, HloMessage::tuning};

std::optional<HloMessage> message_of(const std::string& name) {
  for (const auto message : kMessages) {
    if (name == data::message_name(message)) return message;
  }
  return {};
}

std::string conversion_text(const data::HloConversion& done) {
  if (!done.left_out.empty()) return fmt::format("{}: left out: {}\n", done.name, done.left_out);
  const data::HloGroup& read = done.what;
  const data::Group& group = read.group;
  auto text = fmt::format("{}: {}, {} nodes, {} edges, ", done.out.string(), data::kind_name(group.kind),
                          group.graphs.nodes(), group.graphs.edges());
  if (group.kind == data::CandidateKind::layout) text += fmt::format("{} configurable, ", group.layout.configurable());
  if (read.without_runs)
    text += "no runs: one candidate without layouts and run time";
  else
    text += fmt::format("{} candidates{}", group.candidates, group.labelled() ? "" : " without run times");
  if (read.runs_left_out > 0) text += fmt::format(" ({} runs failed and left out)", read.runs_left_out);
  text += '\n';
  for (const auto& [opcode, nodes] : read.unknown_opcodes)
    text += fmt::format("  {} nodes of opcode {}, which TpuGraphs has no number for: type 0\n", nodes, opcode);
  return text;
}

void convert(const Arguments& arguments) {
  const data::HloConvertOptions options{.message = message_of(arguments.message), .limits = {.nodes = arguments.nodes}};
  data::convert_hlo(arguments.in, arguments.out, options,
                    [](const data::HloConversion& done) { std::cout << conversion_text(done) << std::flush; });
}

}  // namespace

void add_convert(CLI::App& data_command) {
  auto* command = data_command.add_subcommand(
      "convert", "Write TpuGraphs .npz files of HLO modules and tuning data in protobuf (.pb)");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("in", arguments->in, "HloModuleProto, HloProto, ModuleTuningData or TuningData")
      ->required()
      ->type_name("IN");
  command->add_option("out", arguments->out, "File to write (.npz), or folder for one file a module")
      ->required()
      ->type_name("OUT");
  std::vector<std::string> names = {"auto"};
  for (const auto message : kMessages) names.emplace_back(data::message_name(message));
  command->add_option("--message", arguments->message, "Which message the file holds, if its content does not show it")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command
      ->add_option("--max-nodes", arguments->nodes, "Instructions of a module at most; one takes up to 2 kB of memory")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([arguments] { convert(*arguments); });
}

}  // namespace foretime::cli
