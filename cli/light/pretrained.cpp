#include "inference/bundle/pretrained.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/parsing/commands.h"
#include "inference/bundle/bundle.h"

namespace foretime::cli {
namespace {

using Json = nlohmann::ordered_json;

Json describe(const inference::PretrainedBundle& pretrained) {
  const auto bundle = inference::read_bundle(pretrained.file);
  const auto& manifest = bundle.manifest;
  Json json = {{"name", pretrained.name},
               {"file", pretrained.file.string()},
               {"bytes", std::filesystem::file_size(pretrained.file)},
               {"scores", manifest.at("schema").at("kind").get<std::string>()},
               {"licence", manifest.at("licence").get<std::string>()},
               {"machines", Json::array()},
               {"metrics", manifest.at("metrics")}};
  if (manifest.contains("machines"))
    for (const auto& machine : manifest.at("machines"))
      json["machines"].push_back(machine.at("name").get<std::string>());
  return json;
}

void list(bool as_json) {
  Json all = Json::array();
  for (const auto& pretrained : inference::pretrained_bundles()) all.push_back(describe(pretrained));
  if (as_json) {
    fmt::print("{}\n", all.dump(2));
    return;
  }
  if (all.empty()) {
    std::string looked;
    for (const auto& folder : inference::pretrained_folders()) looked += "\n  " + folder.string();
    fmt::print("no pretrained models{}\n", looked.empty() ? ": none are installed" : "; looked in" + looked);
    return;
  }
  for (const auto& item : all) {
    std::string machines;
    for (const auto& machine : item.at("machines"))
      machines += fmt::format("{}{}", machines.empty() ? "" : ", ", machine.get<std::string>());
    fmt::print("{}  {}s, {:.1f} MB, {}{}\n  {}\n", item.at("name").get<std::string>(),
               item.at("scores").get<std::string>(), item.at("bytes").get<int64_t>() / 1e6,
               item.at("licence").get<std::string>(), machines.empty() ? "" : "; measured on " + machines,
               item.at("file").get<std::string>());
  }
}

}  // namespace

void add_pretrained_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "pretrained", "Models that come with Foretime: rank, serve and finetune take their names in place of a file");
  command->require_subcommand(1);
  auto* listing = command->add_subcommand("list", "Name each, with its size, licence and the machines that it knows");
  const auto as_json = std::make_shared<bool>(false);
  listing->add_flag("--json", *as_json, "print JSON, with the metrics of each");
  listing->callback([as_json] { list(*as_json); });
}

}  // namespace foretime::cli
