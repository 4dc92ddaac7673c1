#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/message.h"
#include "base/output_target.h"
#include "base/terminal.h"
#include "base/threads.h"
#include "cli/light/data_command.h"
#include "cli/parsing/options.h"
#include "data/dataset/group_files.h"
#include "data/dataset/inspect.h"
#include "data/dataset/pack.h"
#include "data/dataset/records/record_report.h"
#include "data/dataset/table_pack.h"
#include "data/files/file_form.h"
#include "data/files/packed.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/frontends/tir/tir_file.h"
#include "inference/bundle/bundle.h"

namespace foretime::cli {
namespace {

using data::CandidateKind;

struct InspectArguments {
  std::vector<std::string> files;
  std::string format;
  bool json = false;
};

CandidateKind kind_of_format(const std::string& format) {
  for (const auto kind : {CandidateKind::layout, CandidateKind::tile, CandidateKind::program})
    if (format == data::kind_name(kind)) return kind;
  throw DataError("--format: found '{}', expected layout, tile or programs", format);
}

enum class InputKind : uint8_t { groups, records, tir };

InputKind kind_of_form(data::FileForm form) {
  return form == data::FileForm::save_json ? InputKind::tir
         : form == data::FileForm::records ? InputKind::records
                                           : InputKind::groups;
}

/// Told apart by their first bytes; one call has files of one kind.
InputKind input_kind(const InspectArguments& arguments) {
  if (!arguments.format.empty()) return InputKind::groups;
  std::set<InputKind> kinds;
  for (const std::string& file : arguments.files) kinds.insert(kind_of_form(data::form_of(file)));
  if (kinds.size() != 1) throw DataError("found several kinds of files, expected only records, save_json or graphs");
  return *kinds.begin();
}

void inspect_record_files(const InspectArguments& arguments) {
  std::vector<data::RecordReport> reports;
  for (const std::string& file : arguments.files) {
    reports.push_back(data::inspect_records(file));
    if (!arguments.json) fmt::print("{}", folded(data::to_text(reports.back()), output_width()));
  }
  if (arguments.json) fmt::print("{}", data::to_json(reports));
}

void inspect_tir_files(const InspectArguments& arguments) {
  for (const std::string& file : arguments.files) {
    const auto report = data::inspect_tir(file);
    fmt::print("{}", arguments.json ? data::to_json(report) : folded(data::to_text(report), output_width()));
  }
}

/// Prints why modules of an HLO file are left out.
void print_left_out(const std::filesystem::path& path) {
  const data::HloFile file(path);
  for (const auto& module : file.modules())
    if (const auto reason = data::skip_reason_of(file, module); !reason.empty())
      fmt::print("{}: module {} is left out: {}\n", path.string(), module.name, reason);
}

void inspect(const InspectArguments& arguments) {
  const auto input = input_kind(arguments);
  if (input == InputKind::records) return inspect_record_files(arguments);
  if (input == InputKind::tir) return inspect_tir_files(arguments);
  std::vector<data::GroupReport> reports;
  std::set<std::filesystem::path> modules;
  for (const std::string& file : arguments.files) {
    const CandidateKind kind =
        arguments.format.empty() ? data::kind_of_files(file, ".") : kind_of_format(arguments.format);
    for (const auto& header : data::list_groups({file}, ".", kind)) {
      reports.push_back(data::inspect_group(data::load_group(header), header.file.string()));
      reports.back().odd = data::oddities_of(header);
      if (arguments.json) continue;
      fmt::print("{}", folded(data::to_text(reports.back()), output_width()));
      reports.clear();  // a collection may have thousands
      if (data::is_hlo_file(header.file)) modules.insert(header.file);
    }
  }
  for (const auto& file : modules) print_left_out(file);
  if (arguments.json) fmt::print("{}", data::to_json(reports));
}

/// Adds `-o OUT`, the packed data set that a command writes, and `--force`.
template <class Path>
void add_output(CLI::App& command, Path& out, bool& force) {
  needed_option(command, "--output,-o", out, "Packed data set to write (.foretime)", "OUT");
  add_force_flag(command, force);
}

void verify(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    fmt::print("{}: {} groups, all checksums and values right\n", file, data::verify_packed(file));
}

void add_pack(CLI::App& data_command, const Packer& pack) {
  auto* command = data_command.add_subcommand(
      "pack", "Pack groups into one memory-mapped collection; mpirun shares them among ranks");
  const auto arguments = std::make_shared<PackArguments>();
  add_output(*command, arguments->out, arguments->force);
  needed_option(*command, "in", arguments->in, "Files, folders, globs or collections", "IN");
  shown_option(*command, "--format", arguments->format, "layout, tile or programs",
               CLI::IsMember({"layout", "tile", "programs"}));
  shown_option(*command, "--threads", arguments->threads,
               "Files packed at once by each rank; 0: cores / ranks on this host", Least::zero);
  shown_option(*command, "--memory", arguments->memory_mib,
               "MiB that the files being packed by a rank may take together", Least::above_zero);
  command->callback([arguments, pack] { pack(*arguments); });
}

void add_pack_records(CLI::App& data_command, const RecordPacker& run) {
  auto* command = data_command.add_subcommand("pack-records",
                                              "Pack auto_scheduler tuning records into a collection of loop graphs, "
                                              "a group a workload; mpirun shares the workloads among ranks");
  const auto arguments = std::make_shared<data::RecordPackRequest>();
  add_output(*command, arguments->out, arguments->force);
  needed_option(*command, "in", arguments->in, "Tuning records: JSON lines, plain or gzip", "IN");
  add_dags_option(*command, arguments->dags, "Compute DAGs of the workloads (JSON lines, plain or gzip)")->required();
  command
      ->add_option_function<std::string>(
          "--representation",
          [arguments](const std::string& name) {
            arguments->representation = configs::choice_named<configs::Representation>(name).value();
          },
          "What programs become: loops or curve (docs/explanations/tensor-programs.md)")
      ->check(CLI::IsMember({"loops", "curve"}))
      ->default_str("loops");
  auto* lines = command->add_option("--lines", arguments->lines,
                                    "JSON with places of records in the first file, as in TenSet's lists: "
                                    "0 is its first line; a list, or an object of lists");
  command->add_option("--member", arguments->member, "Member of that JSON")->needs(lines);
  auto* networks = command
                       ->add_option("--networks", arguments->networks,
                                    "JSON that says which lines of the first file belong to which network: "
                                    "a list of objects with network, first_line and lines")
                       ->excludes(lines);
  command->add_option("--take", arguments->take, "Networks to take; all but --never if left out")
      ->needs(networks)
      ->delimiter(',');
  command
      ->add_option("--never", arguments->never,
                   "Networks whose workloads are left out, also where other networks have them")
      ->needs(networks)
      ->delimiter(',');
  shown_option(*command, "--most", arguments->most, "Records of a workload, chosen at random; 0: all", Least::zero);
  shown_option(*command, "--least", arguments->least, "Workloads with fewer records are left out", Least::above_zero);
  command->add_flag("--without-failures", arguments->without_failures,
                    "Leave out measurements that failed; else they rank behind all that ran");
  command->add_option("--seed", arguments->seed, "Of the choice of records")->capture_default_str();
  command
      ->add_option("--hardware", arguments->hardware,
                   "KEY=VALUE: data.hardware of the machine that was measured; known from each record if left out")
      ->delimiter(',');
  command
      ->add_option("--targets", arguments->targets,
                   "Files of `foretime target measure`: machines that records name by -model= in their target")
      ->excludes("--hardware");
  shown_option(*command, "--threads", arguments->threads, "Workers of each rank; 0: cores / ranks on this host",
               Least::zero);
  shown_option(*command, "--memory", arguments->memory_mib, "MiB that a rank may take for programs being packed",
               Least::above_zero);
  command->callback([arguments, run] {
    auto inputs = arguments->in;
    for (const auto& file : {arguments->dags, arguments->lines, arguments->networks}) inputs.emplace_back(file);
    inputs.insert(inputs.end(), arguments->targets.begin(), arguments->targets.end());
    expect_replaceable("-o", arguments->out, FileKind::collection, arguments->force, inputs);
    run(*arguments);
  });
}

/// The columns of a collection or of a bundle's model.
std::string columns_of_file(const std::string& file) {
  const auto text = data::is_packed(file) ? data::columns_text(data::packed_headers(file))
                                          : inference::read_scoring_spec(inference::read_bundle(file)).columns;
  if (text.empty())
    throw DataError("--like {}: not made from a table, expected a packed table or a model trained on one", file);
  return text;
}

void add_pack_table(CLI::App& data_command) {
  auto* command = data_command.add_subcommand(
      "pack-table", "Pack tables of measurements (CSV: named columns, a run time a row) into a collection of tiles");
  const auto request = std::make_shared<data::TablePackRequest>();
  const auto like = std::make_shared<std::string>();
  const auto force = std::make_shared<bool>(false);
  add_output(*command, request->out, *force);
  needed_option(*command, "in", request->in, "Tables with the same columns, plain or gzip", "CSV");
  typed_option(*command, "--runtime", request->runtime, "Column of run times, in any unit", "COLUMN")
      ->capture_default_str();
  auto* group =
      typed_option(*command, "--group", request->group,
                   "Columns that describe the problem: candidates that agree in them are ranked together", "COLUMNS")
          ->delimiter(',');
  typed_option(*command, "--failed", request->failed,
               "Run times that mark failures, such as 0 or 1e20; known: "
               "empty, inf, nan, NA, null, None, and what Kernel Tuner writes",
               "WORDS")
      ->delimiter(',');
  typed_option(*command, "--leave-out", request->skipped_columns, "Columns that say nothing, such as names", "COLUMNS")
      ->delimiter(',');
  typed_option(*command, "--like", *like,
               "Packed table, or bundle of a model, whose columns these must be; then the run time may be missing",
               "FILE")
      ->excludes(group);
  command->callback([request, like, force] {
    auto inputs = request->in;
    inputs.emplace_back(*like);
    expect_replaceable("-o", request->out, FileKind::collection, *force, inputs);
    if (!like->empty()) request->like = columns_of_file(*like);
    const auto done = data::pack_table(*request);
    fmt::print("{}: {} groups, {} candidates{}\n", request->out.string(), done.groups, done.rows,
               done.labelled ? "" : ", without run times");
    if (done.skipped_index_column)
      print_message("foretime: skipped the first column, which has no name and numbers the rows\n");
    if (done.failed > 0) print_message("foretime: skipped {} rows without a run time\n", done.failed);
    fmt::print("  problem: {}\n  candidates: {}\n",
               done.group_columns.empty() ? "one" : fmt::format("{}", fmt::join(done.group_columns, ", ")),
               fmt::join(done.candidate_columns, ", "));
  });
}

void add_inspect(CLI::App& data_command) {
  auto* command = data_command.add_subcommand(
      "inspect",
      "Print shapes, duplicates, distinct layout rows, run times and the noise ceiling of each group; "
      "of files of tuning records (JSON lines, plain or gzip) workloads, errors, costs and noise");
  const auto arguments = std::make_shared<InspectArguments>();
  needed_option(*command, "files", arguments->files, "Files, folders, globs, collections or tuning records", "FILE");
  checked_option(*command, "--format", arguments->format,
                 "layout, tile or programs; known from the entries of a file if left out",
                 CLI::IsMember({"layout", "tile", "programs"}));
  command->add_flag("--json", arguments->json, "Print a JSON array");
  command->callback([arguments] { inspect(*arguments); });
}

void add_pack_tir(CLI::App& data_command) {
  struct Arguments {
    std::string out, member;
    std::vector<std::filesystem::path> in;
    bool force = false;
  };
  auto* command = data_command.add_subcommand(
      "pack-tir", "Pack programs that tvm.ir.save_json wrote (TVM v0.8 to v0.14) into a collection");
  const auto arguments = std::make_shared<Arguments>();
  add_output(*command, arguments->out, arguments->force);
  needed_option(*command, "in", arguments->in, "Files of save_json text or of JSON lines with it, plain or gzip", "IN");
  command->add_option("--member", arguments->member, "Which text of each record, where records have several");
  command->callback([arguments] {
    expect_replaceable("-o", arguments->out, FileKind::collection, arguments->force, arguments->in);
    const int64_t groups = data::pack_tir(arguments->out, arguments->in, arguments->member);
    fmt::print("{}: {} groups, {} bytes\n", arguments->out, groups, std::filesystem::file_size(arguments->out));
  });
}

void add_verify(CLI::App& data_command) {
  auto* command = data_command.add_subcommand("verify", "Check every checksum and value of packed collections");
  const auto files = std::make_shared<std::vector<std::string>>();
  needed_option(*command, "files", *files, "Packed collections", "FILE");
  command->callback([files] { verify(*files); });
}

}  // namespace

std::vector<data::GroupHeader> groups_to_pack(const PackArguments& arguments) {
  expect_replaceable("-o", arguments.out, FileKind::collection, arguments.force);
  auto headers = data::list_groups(arguments.in, ".", kind_of_format(arguments.format));
  std::vector<std::filesystem::path> inputs;
  for (const auto& header : headers) inputs.push_back(header.file);
  expect_replaceable("-o", arguments.out, FileKind::collection, arguments.force, inputs);
  return headers;
}

std::string packed_text(const PackArguments& arguments, const std::vector<data::GroupHeader>& headers) {
  auto text = fmt::format("{}: {} groups, {} bytes\n", arguments.out, headers.size(),
                          std::filesystem::file_size(arguments.out));
  for (const auto& header : headers) {
    for (const auto& line : data::oddities_of(header))
      text += fmt::format("  {} looks odd: {}\n", header.file.string(), line);
  }
  return text;
}

void pack(const PackArguments& arguments) {
  const auto headers = groups_to_pack(arguments);
  data::pack_collection(
      arguments.out, headers,
      {.threads = threads_to_use(arguments.threads), .memory = static_cast<uint64_t>(arguments.memory_mib) << 20});
  fmt::print("{}", packed_text(arguments, headers));
}

void pack_records(const data::RecordPackRequest& request) {
  data::RecordPacking packing(request,
                              {.threads = threads_to_use(request.threads), .token = std::to_string(::getpid())});
  packing.pack();
  fmt::print("{}", packing.join());
}

void add_data_command(CLI::App& app, const Packer& pack, const RecordPacker& pack_records) {
  auto* command = app.add_subcommand("data", "Pack, inspect and verify data sets");
  command->require_subcommand(1);
  add_pack(*command, pack);
  add_pack_tir(*command);
  add_pack_records(*command, pack_records);
  add_pack_table(*command);
  add_inspect(*command);
  add_verify(*command);
}

}  // namespace foretime::cli
