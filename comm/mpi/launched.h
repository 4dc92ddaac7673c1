#pragma once

#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/numbers.h"

namespace foretime::comm {

/// Returns the number in the first of these environment variables that is set; empty for other text, or without any.
inline std::optional<int> launched_number(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* text = std::getenv(name)) return parse_number<int>(text);
  return std::nullopt;
}

/// Returns whether mpirun or srun started the process as one of several: Open MPI's mpirun, the PMI of MPICH and Intel
/// MPI, or srun. SLURM_NTASKS is not sufficient, since sbatch scripts have it outside of steps.
inline bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (launched_number({name}).value_or(0) > 1) return true;
  return false;
}

/// Returns this process's rank as its launcher's environment variables give it before MPI starts; -1 if unknown.
inline int launched_rank() {
  return launched_number({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}).value_or(-1);
}

/// Returns this process's place among the ranks of its host, as the launcher's environment gives it; -1 if unknown.
inline int launched_local_rank() {
  return launched_number({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}).value_or(-1);
}

/// Returns the reason why the tasks of this srun step cannot become ranks of one group, and a remedy; "" if no reason
/// is known or if it is no srun step of several tasks. Without this check each task would train alone.
inline std::string missing_ranks_reason() {
  const auto tasks = launched_number({"SLURM_STEP_NUM_TASKS"});
  if (tasks.value_or(1) <= 1) return "";
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return "";
  return "srun has started " + std::to_string(*tasks) +
         " tasks without PMIx, so that each believes itself to be alone; "
         "start them by srun --mpi=pmix (srun --mpi=list says what this Slurm has)";
}

}  // namespace foretime::comm
