#include "base/gpu_usage.h"

#include <gtest/gtest.h>

namespace foretime {
namespace {

TEST(GpuUsage, IsThatOfTheGpuThatCudaNames) {
  const auto use = gpu_usage(1);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->percent, 87);
  EXPECT_EQ(use->memory_mib, 1024);
  EXPECT_FALSE(gpu_usage(0)) << "the driver does not know it";
  EXPECT_FALSE(gpu_usage(2)) << "CUDA does not know it";
}

}  // namespace
}  // namespace foretime
