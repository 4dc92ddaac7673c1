/// Files of `foretime target measure`, as it writes them and as people change them.
#include "configs/machine_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/settings_error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::configs {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kMeasured = R"(name: "amd-epyc-26-2"
cpu: "AMD EPYC"
hardware:
  vector_bytes: 64
  vector_registers: 32
  cores: 2
  l1_bytes: 49152
  l2_bytes: 1048576
threads: 2
line_bytes: 64
mhz:
  now: 2096.014
multiply_add_gflop_s:
  one: {median: 203.3, low: 107.5, high: 205.0, spread: 0.4793, runs: 15}
  all: {median: 326.9, low: 260.3, high: 377.4, spread: 0.3584, runs: 15}
copy_gb_s:
  one: {median: 24.66, low: 23.64, high: 26.63, spread: 0.1214, runs: 15}
  all: {median: 34.33, low: 32.11, high: 37.99, spread: 0.1713, runs: 15}
busy_cores_of_others: 0.65
)";

std::string refusal(const std::string& yaml) {
  return message_of<SettingsError>([&] { parse_machine_file(yaml, "m.yaml"); });
}

TEST(MachineFile, AsItIsMeasured) {
  const auto machine = parse_machine_file(kMeasured, "m.yaml");
  EXPECT_EQ(machine.name, "amd-epyc-26-2");
  EXPECT_TRUE(machine.targets.empty());
  EXPECT_EQ(machine.hardware.cores, 2);
  EXPECT_EQ(machine.hardware.l2_bytes, 1048576);
  EXPECT_EQ(machine.hardware.l3_bytes, HardwareSettings().l3_bytes) << "the system did not tell";
  EXPECT_DOUBLE_EQ(machine.hardware.multiply_add_gflop_s, 203.3);
  EXPECT_DOUBLE_EQ(machine.hardware.all_multiply_add_gflop_s, 326.9);
  EXPECT_DOUBLE_EQ(machine.hardware.copy_gb_s, 24.66);
  EXPECT_DOUBLE_EQ(machine.hardware.all_copy_gb_s, 34.33);
}

TEST(MachineFile, ByHand) {
  const auto machine = parse_machine_file(
      "{name: xeon, targets: [llvm -keys=cpu], hardware: {cores: 24}, copy_gb_s: 11, "
      "multiply_add_gflop_s: {one: 75.5, all: 1500}}",
      "m.yaml");
  EXPECT_THAT(machine.targets, ::testing::ElementsAre("llvm -keys=cpu"));
  EXPECT_DOUBLE_EQ(machine.hardware.copy_gb_s, 11.0);
  EXPECT_DOUBLE_EQ(machine.hardware.all_copy_gb_s, 0.0);
  EXPECT_DOUBLE_EQ(machine.hardware.all_multiply_add_gflop_s, 1500.0);
}

TEST(MachineFile, WhatItCannotMeanIsRefused) {
  EXPECT_THAT(refusal("cpu: x"), HasSubstr("m.yaml: name: missing"));
  EXPECT_MESSAGE(refusal("nane: x"));
  EXPECT_THAT(refusal("{name: x, hardware: {core: 4}}"), HasSubstr("cores"));
  EXPECT_THAT(refusal("{name: x, hardware: {cores: 0}}"), HasSubstr("cores"));
  EXPECT_THAT(refusal("{name: x, copy_gb_s: {one: {mean: 3}}}"), HasSubstr("copy_gb_s.one.mean"));
  EXPECT_THAT(refusal("{name: x, copy_gb_s: -3}"), HasSubstr("m.yaml:1: copy_gb_s: -3, expected"));
  EXPECT_THAT(refusal("{name: x, copy_gb_s: {all: {median: -3}}}"), HasSubstr("copy_gb_s.all.median: -3, expected"));
  EXPECT_MESSAGE(refusal("{name: x, targets: llvm}"), "targets");
}

}  // namespace
}  // namespace foretime::configs
