#include "jobs/agent/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<Gpu> kTwo = {{0, "GPU-1a2b-3c", {}}, {1, "GPU-1a9f-4d", {"MIG-77-1", "MIG-77-2"}}};

std::string gpu_refusal(const std::vector<std::string>& ids, const std::vector<Gpu>& gpus = kTwo) {
  try {
    check_gpus(ids, gpus);
  } catch (const JobsError& error) {
    return error.what();
  }
  return "";
}

TEST(Gpus, AreNamedAsCudaNamesThem) {
  for (const char* id : {"0", "1", "GPU-1a2b-3c", "GPU-1a2", "GPU-1a9f-4d", "MIG-77-1"})
    EXPECT_EQ(gpu_refusal({id}), "") << id;
  EXPECT_EQ(gpu_refusal({"0", "1"}), "");
  EXPECT_EQ(gpu_refusal({}, {}), "");
}

TEST(Gpus, ThatAreNotThereAreRefusedWithThoseThatAre) {
  for (const char* id : {"2", "-1", "a", "GPU-2", "gpu-1a2b", "", "0 ", "MIG-78"})
    EXPECT_THAT(gpu_refusal({"0", id}), AllOf(HasSubstr("which names no GPU"),
                                              HasSubstr("0 (GPU-1a2b-3c), 1 (GPU-1a9f-4d), MIG-77-1, MIG-77-2")));
  EXPECT_THAT(gpu_refusal({"GPU-1a"}), HasSubstr("which names 2 GPUs"));
  EXPECT_THAT(gpu_refusal({"0"}, {}), AllOf(HasSubstr("no NVIDIA GPU"), HasSubstr("--assume-gpus")));
}

TEST(Gpus, OfThisMachineAreNumberedFromZero) {
  const auto gpus = find_gpus();
  for (size_t i = 0; i < gpus.size(); ++i) EXPECT_EQ(gpus[i].index, static_cast<int>(i));
}

}  // namespace
}  // namespace foretime::jobs
