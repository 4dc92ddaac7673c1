#include "worker/state/device.h"

#include <torch/cuda.h>

namespace foretime::worker {

torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm) {
  if (wanted == configs::Device::cpu) return torch::kCPU;  // must not initialise CUDA
  return choose_device(wanted, comm, torch::cuda::is_available() ? torch::cuda::device_count() : 0);
}

torch::Device choose_device(configs::Device wanted, const comm::Communicator& comm, int gpus) {
  if (wanted == configs::Device::cpu) return torch::kCPU;
  if (!comm.device().is_cpu()) return comm.device();
  if (gpus > 0) return {torch::kCUDA, static_cast<torch::DeviceIndex>(comm.local_rank() % gpus)};
  if (wanted == configs::Device::cuda)
    throw comm::CommError(
        "trainer.device: cuda, but LibTorch finds no GPU; set trainer.device=cpu, or see `foretime doctor`");
  return torch::kCPU;
}

std::string device_warning(torch::Device device, const comm::Communicator& comm, configs::Precision precision) {
  if (precision == configs::Precision::tf32 && device.is_cpu())
    return "trainer.precision tf32 is a way in which GPUs multiply; on this CPU it is float32";
  if (!device.is_cpu() && comm.device().is_cpu() && comm.size() > 1)
    return "the ranks compute on GPUs, but their gradients go through the host's memory by MPI: "
           "this build has no NCCL, or ranks share a GPU (foretime doctor)";
  return "";
}

}  // namespace foretime::worker
