#include "coordinator/early_stop.h"

#include <gtest/gtest.h>

namespace foretime::coordinator {
namespace {

TEST(EarlyStop, WaitsForPatienceWithoutImprovement) {
  EarlyStop stop(true, 2, 0.01);
  EXPECT_TRUE(stop.observe(1, 0.5));
  EXPECT_FALSE(stop.observe(2, 0.505));  // less than min_delta
  EXPECT_FALSE(stop.should_stop());
  EXPECT_FALSE(stop.observe(3, std::nan("")));
  EXPECT_TRUE(stop.should_stop());
  EXPECT_TRUE(stop.observe(4, 0.6));
  EXPECT_FALSE(stop.should_stop());
  EXPECT_EQ(stop.best_step(), 4);
}

TEST(EarlyStop, MinimizesAndGoesOnAfterRestoring) {
  EarlyStop stop(false, 1, 0.0);
  stop.observe(1, 3.0);
  EarlyStop again(false, 1, 0.0);
  again.restore(stop.best(), stop.best_step(), stop.waited());
  EXPECT_FALSE(again.observe(2, 3.0));
  EXPECT_TRUE(again.should_stop());
  EXPECT_TRUE(again.observe(3, 2.0));
}

TEST(EarlyStop, WithoutPatienceNeverStops) {
  EarlyStop stop(true, 0, 0.0);
  for (int64_t i = 0; i < 9; ++i) stop.observe(i, -static_cast<double>(i));
  EXPECT_FALSE(stop.should_stop());
}

}  // namespace
}  // namespace foretime::coordinator
