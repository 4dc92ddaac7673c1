#pragma once

#include <functional>

#include "cli/command_line/model_commands.h"
#include "cli/jobs/board.h"
#include "cli/light/data_command.h"
#include "cli/light/rank_command.h"

/// Lists all subcommands of `foretime`, once for all programs.
namespace foretime::cli {

/// Holds the implementations that differ between programs: a program without LibTorch, MPI or the board executes
/// another one instead.
struct Implementations {
  std::function<void(const TrainArguments&)> train;
  std::function<void(const EvaluateArguments&)> evaluate;
  std::function<void(const ExportArguments&)> export_model;
  std::function<void(const FinetuneArguments&)> finetune;
  std::function<void(const QueueOptions&)> examine_machine;
  CheckpointRanker rank_checkpoints;
  Packer pack;
  RecordPacker pack_records;
  std::function<void(const BoardArguments&)> board;
  std::function<void(const ReportArguments&)> report;
};

/// Adds all subcommands but those of add_other_programs. Commands set `exit_code` for outcomes that are not failures.
void add_commands(CLI::App& app, const Implementations& implementations, int& exit_code);

}  // namespace foretime::cli
