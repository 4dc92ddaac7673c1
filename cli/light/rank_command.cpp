#include "cli/light/rank_command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <system_error>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/output_target.h"
#include "cli/parsing/options.h"
#include "configs/load.h"
#include "data/dataset/group_files.h"
#include "inference/bundle/pretrained.h"

namespace foretime::cli {
namespace {

namespace fs = std::filesystem;

/// Options that another format would ignore.
void check_format(const RankArguments& arguments) {
  const bool submission = arguments.format == "submission";
  if (!arguments.collection.empty() && !submission)
    throw configs::SettingsError("--collection {}: only used in submissions; add --format submission, or leave it out",
                                 arguments.collection);
  if (arguments.top > 0 && submission)
    throw configs::SettingsError(
        "--top {}: a submission has the number of candidates that the contest requires; "
        "leave it out, or use --format csv or json",
        arguments.top);
}

void rank(RankArguments arguments, const CheckpointRanker& rank_checkpoints) {
  check_format(arguments);
  std::vector<fs::path> inputs(arguments.files.begin(), arguments.files.end());
  for (const auto& file : {arguments.model, arguments.candidates, arguments.dags}) inputs.emplace_back(file);
  inputs.insert(inputs.end(), arguments.targets.begin(), arguments.targets.end());
  if (!arguments.output.empty())
    expect_replaceable("--output", arguments.output, FileKind::ranking, arguments.force, inputs);
  arguments.model = inference::bundle_file(arguments.model).string();
  is_file(arguments.model) ? rank_bundle(arguments) : rank_checkpoints(arguments);
}

}  // namespace

void write_answer(const std::string& output, const std::string& text) {
  try {
    if (!output.empty()) return write_output(output, text);
  } catch (const StorageError&) {
    throw;
  } catch (const FileError& error) {
    throw configs::SettingsError("--output: {}", error.what());
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw std::system_error(EPIPE, std::generic_category(), "standard output");
  if (is_storage_failure(errno)) throw_file_error("standard output", "cannot be written", errno);
  throw configs::SettingsError("standard output: cannot be written: {}", std::strerror(errno));
}

RankOutput::RankOutput(const RankArguments& arguments, std::string format)
    : arguments_(arguments), format_(std::move(format)) {
  if (format_ == "submission") text_ = "ID,TopConfigs\n";
}

void RankOutput::add(const inference::Ranking& ranking, const std::string& collection, const std::string& origin) {
  if (format_ == "json") groups_.push_back(to_json(ranking, arguments_.top));
  if (format_ == "csv") rankings_.push_back(ranking);
  if (format_ != "submission") return;
  const auto& name = arguments_.collection.empty() ? collection : arguments_.collection;
  if (name.empty())
    throw DataError("{}: its path has no TpuGraphs collection; give --collection, e.g. layout:xla:random", origin);
  text_ += submission_line(name, ranking);
}

void RankOutput::write() {
  if (format_ == "json") text_ = groups_.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (format_ == "csv") text_ = to_csv(rankings_, arguments_.top);
  write_answer(arguments_.output, text_);
}

void rank_groups(const std::vector<data::GroupHeader>& headers, RankOutput& output,
                 const std::function<inference::Ranking(const data::GroupHeader&, const data::Group&)>& rank) {
  const auto read = [&](size_t i) {
    return std::async(std::launch::async, [&headers, i] { return data::load_group(headers[i]); });
  };
  auto next = headers.empty() ? std::future<data::Group>() : read(0);
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto& header = headers[i];
    const auto group = next.get();
    if (i + 1 < headers.size()) next = read(i + 1);
    auto collection = data::to_string(header.collection);
    if (collection.empty()) collection = data::collection_in(header.file);
    output.add(rank(header, group), collection, header.file.string());
  }
}

void add_rank_command(CLI::App& app, const CheckpointRanker& checkpoint_ranker) {
  auto arguments = std::make_shared<RankArguments>();
  auto* command = app.add_subcommand("rank", "Score the candidates of graph files, fastest first");
  needed_option(*command, "model", arguments->model,
                "a bundle (foretime export), a run directory (its best checkpoint) or one checkpoint folder", "MODEL");
  needed_option(*command, "files", arguments->files,
                "graph files, folders, globs or packed collections; "
                "of programs also files of tuning records or of save_json text",
                "FILE");
  command
      ->add_option("--ensemble", arguments->ensemble,
                   "another checkpoint whose model scores with the first one; may be repeated. Predicted run times are "
                   "joined by their geometric mean, mere scores by their mean after standardising them in each group")
      ->allow_extra_args(false);
  checked_option(*command, "--format", arguments->format,
                 "csv (the default), json (with --candidates the default), or the contest's submission",
                 CLI::IsMember({"csv", "json", "submission"}));
  command->add_option("--output,-o", arguments->output, "file to write; without it, standard output");
  add_force_flag(*command, arguments->force);
  command->add_option("--collection", arguments->collection,
                      "submission: layout:xla:random, tile:xla, …; default: from the path");
  checked_option(*command, "--top", arguments->top, "csv, json: the fastest so many of each group; 0: all",
                 Least::zero);
  typed_option(*command, "--candidates", arguments->candidates,
               "layout and tile models: rank these configurations of the graph in FILE, not those in it; "
               ".json or .npz, see docs/how-to/rank-xla-layouts.md",
               "FILE");
  add_dags_option(*command, arguments->dags,
                  "the compute DAGs of the records' workloads, plain or gzip, see docs/explanations/schedules.md");
  typed_option(*command, "--targets", arguments->targets,
               "files of `foretime target measure`: machines that records name by -model= and the bundle does not know",
               "MACHINE");
  command->add_option("--member", arguments->member,
                      "which text of each record of save_json text, where records have several");
  checked_option(*command, "--threads", arguments->threads,
                 "bundles, records and texts: threads that score; 0: one a core", CLI::Range(0, 256));
  command->footer(
      "Examples:\n"
      "  foretime rank runs/quickstart samples/resnet18_conv2d/C3.npz --top 10\n"
      "  foretime rank model.foretime module.pb --candidates candidates.json --top 10\n"
      "  foretime rank model.foretime records.jsonl --dags dags.jsonl");
  command->callback([arguments, checkpoint_ranker] { rank(*arguments, checkpoint_ranker); });
}

}  // namespace foretime::cli
