#pragma once

#include <cstdlib>
#include <string>

namespace foretime::comm {

/// True where the process was started by mpirun or srun as one of several, so MPI should be initialised. Open MPI's
/// mpirun; the PMI of MPICH and Intel MPI; srun. SLURM_NTASKS will not do: an sbatch script has it too, outside any
/// step.
inline bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(name);
    if (text != nullptr && std::atoi(text) > 1) return true;
  }
  return false;
}

/// This process's rank as its launcher tells it, which is known before MPI is; -1 where nobody says.
inline int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

/// Its place among the ranks of its host, likewise: Open MPI's mpirun, Hydra of MPICH and Intel MPI, srun.
inline int launched_local_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

/// Why the tasks of this srun step cannot become ranks of one group, and what mends it; empty where nothing is known
/// to be wrong. Each would train alone, and Open MPI's own message blames how it was built.
inline std::string why_no_ranks() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::atoi(tasks) <= 1) return "";
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return "";
  }
  return std::string("srun has started ") + tasks +
         " tasks without PMIx, so that each believes itself to be alone; start them by srun --mpi=pmix (srun "
         "--mpi=list "
         "says what this Slurm has)";
}

}  // namespace foretime::comm
