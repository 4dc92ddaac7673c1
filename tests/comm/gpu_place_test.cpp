#include "comm/gpu/gpu_place.h"

#include <gmock/gmock.h>

#include "tests/support/golden.h"

namespace foretime::comm {
namespace {

using ::testing::HasSubstr;

// Promise hosts/gpus: two ranks on one GPU are refused; hosts of equal names are told apart
TEST(GpuPlaces, EachIsKnownByItsMachineAndItsAddressThere) {
  const GpuPlace first{"0000:17:00.0", "h1", "boot-1"};
  EXPECT_EQ(shared_gpu({first, {"0000:65:00.0", "h1", "boot-1"}, {"0000:17:00.0", "h2", "boot-2"}}), "");
  EXPECT_MESSAGE(shared_gpu({{"0000:65:00.0", "h1", "boot-1"}, first, first}));
  EXPECT_EQ(gpu_place_of(to_bytes(first)).boot, "boot-1");
}

// Promise hosts/gpus
TEST(GpuPlaces, TwoHostsOfOneNameAreTwoAndTwoContainersOfOneMachineAreOne) {
  EXPECT_EQ(shared_gpu({{"0000:17:00.0", "localhost", "boot-1"}, {"0000:17:00.0", "localhost", "boot-2"}}), "");
  EXPECT_MESSAGE(shared_gpu({{"0000:17:00.0", "pod-a", "boot-1"}, {"0000:17:00.0", "pod-b", "boot-1"}}));
  EXPECT_THAT(shared_gpu({{"0000:17:00.0", "h1", ""}, {"0000:17:00.0", "h1", "boot-1"}}), HasSubstr("would share"));
  EXPECT_EQ(shared_gpu({{"0000:17:00.0", "h1", ""}, {"0000:17:00.0", "h2", ""}}), "");
}

}  // namespace
}  // namespace foretime::comm
