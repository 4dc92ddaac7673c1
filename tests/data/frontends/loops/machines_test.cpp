/// Machines that records name: which is meant, and what its vectors and cores make of its rates.
#include "data/frontends/loops/machines.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::data {
namespace {

Machine machine(const std::string& name, std::vector<std::string> targets = {}) {
  return {name,
          std::move(targets),
          {.vector_bytes = 64,
           .vector_registers = 32,
           .cores = 8,
           .l2_bytes = 2 << 20,
           .multiply_add_gflop_s = 160.0,
           .all_multiply_add_gflop_s = 1000.0,
           .copy_gb_s = 12.0,
           .all_copy_gb_s = 40.0}};
}

TEST(Machines, AreFoundByModelAndByTarget) {
  const Machines machines({machine("epyc-9"), machine("xeon", {"llvm -keys=cpu"})});
  EXPECT_EQ(machines.find("llvm -mcpu=znver4 -model=epyc-9"), &machines.all()[0]);
  EXPECT_EQ(machines.find("llvm -model=epyc-9 -mcpu=znver4"), &machines.all()[0]);
  EXPECT_EQ(machines.find("llvm -model=epyc-99"), nullptr);
  EXPECT_EQ(machines.find("llvm -keys=cpu"), &machines.all()[1]);
  EXPECT_EQ(machines.find("llvm -keys=cpu -mcpu=znver4"), nullptr);
  EXPECT_EQ(model_of_target("llvm"), "");
}

TEST(Machines, RatesAreThoseOfTheVectorsAndCoresThatAProgramHas) {
  const Machines machines({machine("m")});
  const auto full = machines.hardware_of("llvm -mcpu=znver4 -model=m", {.cores = 8});
  EXPECT_EQ(full, machines.all()[0].hardware);
  const auto one = machines.hardware_of("llvm -mcpu=core-avx2 -model=m", {.cores = 1});
  EXPECT_EQ(one.vector_bytes, 32);
  EXPECT_EQ(one.vector_registers, 16);
  EXPECT_EQ(one.cores, 1);
  EXPECT_EQ(one.l2_bytes, 2 << 20);
  EXPECT_DOUBLE_EQ(one.multiply_add_gflop_s, 80.0);
  EXPECT_DOUBLE_EQ(one.all_multiply_add_gflop_s, 80.0);
  EXPECT_DOUBLE_EQ(one.all_copy_gb_s, 12.0);
  EXPECT_DOUBLE_EQ(machines.hardware_of("llvm -mcpu=znver4 -model=m", {.cores = 2}).all_multiply_add_gflop_s, 320.0);
  const auto unknown = machines.hardware_of("llvm -mcpu=znver4", {.cores = 8});
  EXPECT_EQ(unknown, hardware_of_target("llvm -mcpu=znver4", 8));
}

TEST(Machines, ProgramsOfTirRunOnTheCoresOfTheirTarget) {
  const Machines machines({machine("m")});
  const std::string target = "llvm -mcpu=core-avx2 -model=m -num-cores=2";
  EXPECT_EQ(machines.hardware_of_tir(target), machines.hardware_of(target, {.cores = 2}));
  EXPECT_EQ(machines.hardware_of_tir("llvm").cores, 1);
  EXPECT_MESSAGE(testing::message_of<DataError>([&] { machines.hardware_of_tir("cuda -arch=sm_80"); }), "-arch=sm_80");
}

TEST(Machines, TwoOfOneNameAreRefused) {
  EXPECT_MESSAGE(testing::message_of<DataError>([] { Machines({machine("m"), machine("m")}); }));
  EXPECT_MESSAGE(testing::message_of<DataError>([] { Machines({machine("a", {"llvm"}), machine("b", {"llvm"})}); }));
}

TEST(Machines, RatesThatWereNotMeasuredAreGuessed) {
  const auto guessed = with_rates({.vector_bytes = 32, .cores = 24});
  EXPECT_DOUBLE_EQ(guessed.multiply_add_gflop_s, 80.0);
  EXPECT_DOUBLE_EQ(guessed.all_multiply_add_gflop_s, 24 * 80.0);
  EXPECT_DOUBLE_EQ(guessed.all_copy_gb_s, 80.0);
  EXPECT_EQ(with_rates(machine("m").hardware), machine("m").hardware);
}

}  // namespace
}  // namespace foretime::data
