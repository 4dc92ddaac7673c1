#include <future>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/submission.h"
#include "configs/load.h"
#include "coordinator/checkpoint_store.h"
#include "data/program/program_forms.h"
#include "worker/ensemble.h"

namespace foretime::cli {
namespace {

struct Options {
  std::string checkpoint;
  std::vector<std::string> ensemble;
  std::vector<std::string> files;
  std::string format = "csv";
  std::string output;
  std::string collection;
  int64_t top = 0;

  std::vector<std::string> checkpoints() const {
    std::vector<std::string> all = {checkpoint};
    all.insert(all.end(), ensemble.begin(), ensemble.end());
    return all;
  }
};

std::vector<size_t> fastest_first(const worker::GroupEvaluation& group, int64_t top) {
  std::vector<size_t> order(group.candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return group.scores.scores[a] < group.scores.scores[b]; });
  if (top > 0) order.resize(std::min(order.size(), static_cast<size_t>(top)));
  return order;
}

std::string to_csv(const worker::GroupEvaluation& group, const data::Group& source, int64_t top) {
  std::string text;
  int64_t place = 0;
  for (const size_t i : fastest_first(group, top)) {
    const auto c = group.candidates[i];
    text += fmt::format("{},{},{},{},{},{},{}\n", group.group, place++, c,
                        source.candidate_ids.empty() ? "" : source.candidate_ids[static_cast<size_t>(c)],
                        group.scores.scores[i],
                        group.scores.predicted.empty() ? "" : fmt::format("{}", group.scores.predicted[i]),
                        group.scores.levels.empty() ? "" : fmt::format("{}", group.scores.levels[i]));
  }
  return text;
}

nlohmann::json to_json(const worker::GroupEvaluation& group, const data::Group& source, int64_t top) {
  nlohmann::json ranking = nlohmann::json::array();
  for (const size_t i : fastest_first(group, top)) {
    nlohmann::json item = {{"candidate", group.candidates[i]}, {"score", group.scores.scores[i]}};
    if (!source.candidate_ids.empty()) item["id"] = source.candidate_ids[static_cast<size_t>(group.candidates[i])];
    if (!group.scores.predicted.empty()) item["predicted_runtime"] = group.scores.predicted[i];
    if (!group.scores.levels.empty()) item["level"] = group.scores.levels[i];
    ranking.push_back(std::move(item));
  }
  return {{"group", group.group}, {"ranking", std::move(ranking)}};
}

worker::Ensemble load(const Options& options) {
  std::vector<worker::EnsembleMember> members;
  for (const auto& checkpoint : options.checkpoints())
    members.push_back({checkpoint, worker::load_trained_model(coordinator::read_checkpoint(checkpoint))});
  return {std::move(members), torch::kCPU};
}

void run(const Options& options) {
  const auto ensemble = load(options);
  const auto& state = ensemble.state();
  std::string text;
  if (options.format == "csv") text = "group,rank,candidate,id,score,predicted_runtime,level\n";
  if (options.format == "submission") text = "ID,TopConfigs\n";
  auto json = nlohmann::json::array();
  const auto headers =
      data::list_groups(options.files, ".", state.schema.kind, {}, data::make_program_form(state.settings.data));
  for (const auto& header : headers) {
    if (header.feature_count != state.schema.feature_count) {
      throw data::DataError(fmt::format("{}: {} node features, the model was trained on {}", header.file.string(),
                                        header.feature_count, state.schema.feature_count));
    }
  }
  // The next group is read while one is scored, and no more than two are in memory.
  const auto read = [&](size_t i) {
    return std::async(std::launch::async, [&headers, i] { return data::load_group(headers[i]); });
  };
  auto next = headers.empty() ? std::future<data::Group>() : read(0);
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto& header = headers[i];
    const auto group = next.get();
    if (i + 1 < headers.size()) next = read(i + 1);
    const auto ranked = ensemble.rank(header, group);
    if (options.format == "json") json.push_back(to_json(ranked, group, options.top));
    if (options.format == "csv") text += to_csv(ranked, group, options.top);
    if (options.format == "submission") {
      auto collection = options.collection;
      if (collection.empty()) collection = data::to_string(header.collection);
      if (collection.empty()) collection = data::collection_in(header.file);
      if (collection.empty()) {
        throw data::DataError(
            fmt::format("{}: its path names no TpuGraphs collection; give --collection, e.g. layout:xla:random",
                        header.file.string()));
      }
      text += submission_line(collection, ranked);
    }
  }
  if (options.format == "json") text = json.dump(2) + "\n";
  if (options.output.empty()) {
    fmt::print("{}", text);
  } else {
    coordinator::write_file_atomically(options.output, text);
  }
}

}  // namespace

void add_rank_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("rank", "Score the candidates of graph files, fastest first");
  command
      ->add_option("checkpoint", options->checkpoint, "a run directory (its best checkpoint) or one checkpoint folder")
      ->required();
  command->add_option("files", options->files, "graph files, folders, globs or packed collections")->required();
  command
      ->add_option("--ensemble", options->ensemble,
                   "another checkpoint whose model scores with the first one; may be repeated. Predicted run times are "
                   "joined by their geometric mean, mere scores by their mean after standardising them in each group")
      ->allow_extra_args(false);
  command->add_option("--format", options->format, "csv, json, or the contest's submission")
      ->check(CLI::IsMember({"csv", "json", "submission"}))
      ->capture_default_str();
  command->add_option("--output,-o", options->output, "file to write; without it, standard output");
  command->add_option("--collection", options->collection,
                      "submission: layout:xla:random, tile:xla, …; default: from the path");
  command->add_option("--top", options->top, "csv, json: the fastest so many of each group; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->callback([options] { run(*options); });
}

}  // namespace foretime::cli
