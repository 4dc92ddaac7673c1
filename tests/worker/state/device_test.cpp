#include "worker/state/device.h"

#include <gmock/gmock.h>

#include "comm/backends/factory.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/thread_group.h"

/// What ranks compute on, where GPUs are only said to be there.
namespace foretime::worker {
namespace {

using configs::Device;
using configs::Precision;
using ::testing::HasSubstr;

TEST(ChooseDevice, IsTheGpuOfTheRanksPlaceOnItsHost) {
  const auto alone = comm::make_single_communicator();
  EXPECT_EQ(choose_device(Device::auto_, *alone, 2), torch::Device(torch::kCUDA, 0)) << "also in one process";
  EXPECT_EQ(choose_device(Device::cuda, *alone, 1), torch::Device(torch::kCUDA, 0));
  EXPECT_EQ(choose_device(Device::auto_, *alone, 0), torch::Device(torch::kCPU));
  EXPECT_EQ(choose_device(Device::cpu, *alone, 2), torch::Device(torch::kCPU));
  EXPECT_THAT(foretime::testing::message_of<comm::CommError>([&] { choose_device(Device::cuda, *alone, 0); }),
              HasSubstr("LibTorch finds no GPU"));
  const auto ranks = foretime::testing::make_thread_group(3, std::chrono::seconds(10));
  EXPECT_EQ(choose_device(Device::auto_, *ranks[1], 2), torch::Device(torch::kCUDA, 1));
  EXPECT_EQ(choose_device(Device::auto_, *ranks[2], 2), torch::Device(torch::kCUDA, 0)) << "more ranks than GPUs";
}

TEST(DeviceWarning, NamesWhatCostsTimeOrMeansNothing) {
  const auto alone = comm::make_single_communicator();
  const auto ranks = foretime::testing::make_thread_group(2, std::chrono::seconds(10));
  const torch::Device gpu(torch::kCUDA, 0);
  EXPECT_MESSAGE(device_warning(gpu, *ranks[0], Precision::float32));
  EXPECT_EQ(device_warning(gpu, *alone, Precision::tf32), "");
  EXPECT_EQ(device_warning(torch::kCPU, *ranks[0], Precision::bfloat16), "");
  EXPECT_MESSAGE(device_warning(torch::kCPU, *alone, Precision::tf32));
}

}  // namespace
}  // namespace foretime::worker
