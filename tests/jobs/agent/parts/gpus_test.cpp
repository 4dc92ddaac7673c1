#include "jobs/agent/gpus.h"

#include <array>
#include <cstdio>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<Gpu> kTwo = {{0, "GPU-1a2b-3c", {}}, {1, "GPU-1a9f-4d", {"MIG-77-1", "MIG-77-2"}}};

std::string gpu_refusal(const std::vector<std::string>& ids, const std::vector<Gpu>& gpus = kTwo) {
  return testing::message_of<JobsError>([&] { check_gpus(ids, gpus); });
}

TEST(Gpus, AreNamedAsCudaNamesThem) {
  for (const char* id : {"0", "1", "GPU-1a2b-3c", "GPU-1a2", "GPU-1a9f-4d", "MIG-77-1"})
    EXPECT_EQ(gpu_refusal({id}), testing::kNoException) << id;
  EXPECT_EQ(gpu_refusal({"0", "1"}), testing::kNoException);
  EXPECT_EQ(gpu_refusal({}, {}), testing::kNoException);
}

TEST(Gpus, ThatAreNotThereAreRefusedWithThoseThatAre) {
  for (const char* id : {"2", "-1", "a", "GPU-2", "gpu-1a2b", "", "0 ", "MIG-78"})
    EXPECT_MESSAGE(gpu_refusal({"0", id}), "0 (GPU-1a2b-3c), 1 (GPU-1a9f-4d), MIG-77-1, MIG-77-2");
  EXPECT_THAT(gpu_refusal({"GPU-1a"}), HasSubstr("which names 2 GPUs"));
  EXPECT_THAT(gpu_refusal({"0"}, {}), AllOf(HasSubstr("no NVIDIA GPU"), HasSubstr("--assume-gpus")));
}

/// As NVIDIA's own tool lists them: "GPU 0: NVIDIA H200 (UUID: GPU-1a2b)".
TEST(Gpus, OfThisMachineAreThoseThatNvidiaSmiLists) {
  std::unique_ptr<FILE, int (*)(FILE*)> tool(popen("nvidia-smi -L 2>/dev/null", "r"), pclose);
  ASSERT_TRUE(tool);
  std::vector<std::string> uuids;
  std::array<char, 400> line{};
  while (fgets(line.data(), line.size(), tool.get()) != nullptr) {
    const std::string text = line.data();
    const auto begin = text.find("UUID: "), end = text.find(')', begin);
    if (text.starts_with("GPU ") && end != std::string::npos) uuids.push_back(text.substr(begin + 6, end - begin - 6));
  }
  const auto gpus = find_gpus();
  ASSERT_EQ(gpus.size(), uuids.size());
  for (size_t i = 0; i < gpus.size(); ++i) {
    EXPECT_EQ(gpus[i].index, static_cast<int>(i));
    EXPECT_EQ(gpus[i].uuid, uuids[i]);
  }
}

}  // namespace
}  // namespace foretime::jobs
