#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/graphs/validate.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/fuzzing.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"

/// Modules and runs that are refused, each with its message.
namespace foretime::data {
namespace {

using testing::computation;
using ::testing::HasSubstr;
using testing::instruction;
using testing::Instruction;
using testing::message_of;
using testing::module_of;
using testing::Scratch;
using ::testing::StartsWith;

std::string complaint(const std::string& module) {
  std::vector<float> rows;
  return message_of<DataError>([&] { testing::read_graph(module, &rows); });
}

std::string complaint(const std::vector<Instruction>& instructions) {
  return complaint(module_of({computation("main", 1, instructions.front().id(), instructions)}));
}

Instruction caller(int64_t id, int64_t computation_id) {
  Instruction made = instruction(id, "call");
  made.add_called_computation_ids(computation_id);
  return made;
}

TEST(MalformedModule, Ids) {
  EXPECT_MESSAGE(complaint({instruction(5, "add"), instruction(5, "add")}), "test.pb");
  const auto one = [](int64_t id, int64_t computation_id) {
    return computation("c", computation_id, id, {instruction(id, "constant")});
  };
  EXPECT_MESSAGE(complaint(module_of({one(1, 4), one(2, 4)})), "test.pb");
  EXPECT_MESSAGE(complaint(module_of({computation("c", 4, 9, {instruction(1, "constant")})})), "test.pb");
  EXPECT_MESSAGE(complaint(module_of({one(1, 3), computation("c", 4, 1, {instruction(2, "constant")})})), "test.pb");
  EXPECT_MESSAGE(complaint(module_of({computation("c", 4, 1, {instruction(2, "constant")}), one(1, 3)})), "test.pb");
}

TEST(MalformedModule, Operands) {
  EXPECT_MESSAGE(complaint({instruction(1, "add", {7})}), "test.pb");
  EXPECT_MESSAGE(complaint(module_of({computation("a", 1, 1, {instruction(1, "constant")}),
                                      computation("b", 2, 2, {instruction(2, "negate", {1})})})),
                 "test.pb");
}

TEST(MalformedModule, CyclesOfOperands) {
  const std::string order =
      " does not come before it, expected operands before their users as XLA writes them, which a cycle does not allow";
  EXPECT_MESSAGE(complaint({instruction(1, "add", {1})}), "test.pb", order);
  EXPECT_MESSAGE(complaint({instruction(1, "add", {2}), instruction(2, "add", {1})}), "test.pb", order);
}

TEST(MalformedModule, CyclesOfComputations) {
  const std::string order =
      " which does not come before it, expected callees before their callers as XLA writes them, which a cycle does "
      "not allow";
  EXPECT_MESSAGE(complaint(module_of({computation("a", 8, 1, {caller(1, 8)})})), "test.pb", order);
  EXPECT_MESSAGE(complaint(module_of({computation("a", 8, 1, {caller(1, 9)}), computation("b", 9, 2, {caller(2, 8)})})),
                 "test.pb", order);
  EXPECT_MESSAGE(complaint(module_of({computation("a", 8, 1, {caller(1, 70)})})), "test.pb");
}

TEST(MalformedModule, EmptyThings) {
  EXPECT_MESSAGE(complaint(module_of({})), "test.pb: module tested");
  EXPECT_MESSAGE(complaint(module_of({computation("c", 4, 1, {})})), "test.pb");
  EXPECT_MESSAGE(complaint({instruction(3, "")}), "test.pb");
}

TEST(MalformedModule, Shapes) {
  EXPECT_MESSAGE(complaint({instruction(1, "add", {}, {2, -1})}), "test.pb");
  EXPECT_MESSAGE(complaint({instruction(1, "add", {}, {INT64_MAX, INT64_MAX})}), "test.pb");
}

TEST(MalformedModule, NamesAreMadePrintable) {
  Instruction odd = instruction(1, "add", {9});
  odd.set_name("a\nb\x1b[31m\xff" + std::string(200, 'x'));
  const auto message = complaint({odd});
  EXPECT_THAT(message, HasSubstr("instruction a?b?[31m?xxx")) << message;
  EXPECT_LT(message.size(), 200u);
}

TEST(MalformedModule, Bytes) {
  const std::string good = testing::small_module();
  EXPECT_THAT(complaint(good.substr(0, good.size() - 1)), StartsWith("test.pb: byte "));
  EXPECT_MESSAGE(complaint(good + "\x0b"), "test.pb", std::to_string(good.size()));
  EXPECT_MESSAGE(complaint(good + std::string(11, '\xff')));
  EXPECT_MESSAGE(complaint(good + std::string("\x00\x00", 2)));
  EXPECT_MESSAGE(complaint(good + "\x08"));
  EXPECT_MESSAGE(complaint(good + "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
  // A shape that is no message.
  const auto broken =
      testing::bytes_field(2, "add") + testing::number_field(35, 1) + testing::bytes_field(3, "\x1a\x05");
  EXPECT_MESSAGE(complaint(module_of({testing::bytes_field(2, broken) + testing::number_field(6, 1)})), "test.pb");
}

TEST(MalformedModule, InstructionsOfManyMegabytes) {
  Instruction made = instruction(1, "add");
  made.mutable_window();
  std::string bytes = made.SerializeAsString() + testing::bytes_field(15, std::string((4 << 20) + 1, '\0'));
  EXPECT_MESSAGE(complaint(module_of({testing::bytes_field(2, bytes) + testing::number_field(6, 1)})), "test.pb");
}

TEST(MalformedFile, NoModuleInIt) {
  const Scratch folder;
  const auto open = [&](const std::string& bytes) {
    const auto path = testing::write_file(folder, bytes);
    auto message = message_of<DataError>([&] { HloFile file(path); });
    return message.substr(message.find("test.pb"));
  };
  EXPECT_MESSAGE(open(""), "test.pb");
  for (const std::string& bytes : {std::string("hello"), std::string(1000, '\0'), std::string(1000, '\n')})
    EXPECT_MESSAGE(open(bytes), "test.pb");
  EXPECT_MESSAGE(message_of<FileError>([&] { HloFile file(folder.path() / "missing.pb"); }), "missing.pb");
  EXPECT_MESSAGE(message_of<DataError>([&] { HloFile file(folder.path()); }));
}

/// What a group of a ModuleTuningData is refused for.
std::string group_complaint(const std::vector<hlo::ConfigProfile>& runs, const std::vector<int64_t>& nodes) {
  const Scratch folder;
  const HloFile file(testing::write_file(folder, testing::module_tuning(testing::small_module(), runs, nodes)));
  const auto message = message_of<DataError>([&] { read_hlo_group(file, file.modules().at(0)); });
  const auto start = message.find("test.pb");
  return message.substr(start == std::string::npos ? 0 : start);
}

TEST(MalformedRuns, Nodes) {
  const auto run = testing::layout_run({{{1, 0}}, {}}, 10);
  EXPECT_EQ(group_complaint({run}, {4, 9}), "test.pb: config_index_to_node: node 9, expected 0 … 8");
  EXPECT_EQ(group_complaint({run}, {4, -1}), "test.pb: config_index_to_node: node -1, expected 0 … 8");
  EXPECT_MESSAGE(group_complaint({run}, {4, 4}), "test.pb: config_index_to_node");
  EXPECT_MESSAGE(group_complaint({run}, {}), "test.pb");
  EXPECT_MESSAGE(group_complaint({run}, {3, 4, 5}));
}

TEST(MalformedRuns, Configurations) {
  const auto good = testing::layout_run({{{1, 0}}}, 10);
  EXPECT_MESSAGE(group_complaint({testing::layout_run({{{0}, {0}, {0}, {0}}}, 10)}, {4}));
  EXPECT_MESSAGE(group_complaint({testing::layout_run({{{1000}}}, 10)}, {4}));
  EXPECT_MESSAGE(group_complaint({good, testing::tile_run({8}, 10)}, {4}));
  hlo::ConfigProfile none;
  none.mutable_profile()->set_compute_time_ns(5);
  EXPECT_MESSAGE(group_complaint({good, none}, {4}));
  EXPECT_MESSAGE(group_complaint({testing::tile_run({INT64_MAX, 2}, 10, true)}, {}));
  auto failed = good;
  failed.set_error(true);
  EXPECT_MESSAGE(group_complaint({failed, failed}, {4}), "test.pb: module test");
  EXPECT_MESSAGE(group_complaint({testing::tile_run({8}, 10)}, {}), "test.pb: module test");
}

TEST(MalformedRuns, TooLargeToBeOne) {
  testing::Layouts many(200'000);
  EXPECT_MESSAGE(group_complaint({testing::layout_run(many, 10)}, {4}));
  EXPECT_MESSAGE(group_complaint({testing::tile_run(std::vector<int64_t>(100'000, 1), 10, true)}, {}));
}

std::string repeated(const std::string& field, size_t times) {
  std::string bytes;
  for (size_t i = 0; i < times; ++i) bytes += field;
  return bytes;
}

/// What takes a few bytes in the file and much more in memory is counted while it is listed.
TEST(MalformedRuns, TooManyToBeReal) {
  const Scratch folder;
  const auto module = testing::bytes_field(1, testing::small_module());
  const auto outline = [&](const std::string& bytes) {
    const HloSource source{bytes, "test.pb"};
    return message_of<DataError>([&] { outline_tuning(source, bytes); });
  };
  const std::string limit = "test.pb: more than 4000000 runs or configurable nodes of one module, which is the limit";
  EXPECT_EQ(outline(module + repeated(testing::bytes_field(3, testing::number_field(3, 1)), 4'000'001)), limit);
  EXPECT_EQ(outline(module + testing::bytes_field(4, std::string(5'000'000, '\1'))), limit);
  EXPECT_EQ(outline(module + repeated(testing::number_field(4, 1), 4'000'001)), limit);
  const auto one = testing::tuning({testing::module_tuning(testing::small_module(), {})});
  const auto path = testing::write_file(folder, one + repeated(testing::bytes_field(1, ""), 200'000));
  EXPECT_MESSAGE(message_of<DataError>([&] { HloFile{path}; }));
}

}  // namespace

// Damaged files: DataError, or a group that keeps every rule. Never a crash.

namespace {

std::string synthetic(bool tiles) {
  std::vector<hlo::ConfigProfile> runs;
  for (int64_t i = 0; i < 8; ++i) {
    runs.push_back(tiles ? testing::tile_run({i, 2 * i + 1}, 20 + i, i == 0)
                         : testing::layout_run({{{1, 0}, {0, 1}}, {{static_cast<int32_t>(i % 3)}}}, 30 + i, i == 0));
  }
  const auto one = testing::module_tuning(testing::small_module("a"), runs,
                                          tiles ? std::vector<int64_t>() : std::vector<int64_t>{4, 6});
  return tiles ? testing::tuning({one, one}) : one;
}

std::vector<std::string> seeds() {
  std::vector<std::string> files = {synthetic(false), synthetic(true), testing::small_module()};
  const auto data = testing::data_dir();
  for (const char* name : {"module_tuning_data_layout.pb", "op_tuning_data.pb"}) {
    std::ifstream file(data / "tpugraphs/pb" / name, std::ios::binary);
    if (!data.empty() && file)
      files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// Groups of the file that were read.
size_t read_all(const Scratch& folder, const std::string& bytes) {
  const auto path = testing::write_file(folder, bytes);
  size_t read = 0;
  try {
    const HloFile file(path);
    for (const auto& module : file.modules()) {
      const Group made = read_hlo_group(file, module, {.nodes = 10'000});
      validate_group(made, "fuzz");
      ++read;
    }
  } catch (const DataError& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr("test.pb")) << error.what();
  }
  return read;
}

TEST(HloFuzz, CutOff) {
  const Scratch folder;
  for (const auto& seed : seeds()) {
    const size_t whole = read_all(folder, seed);
    EXPECT_GT(whole, 0u);
    for (size_t part = 1; part < 64; ++part) {
      const size_t read = read_all(folder, seed.substr(0, seed.size() * part / 64));
      EXPECT_LE(read, whole);
    }
  }
}

TEST(HloFuzz, ChangedBytes) {
  const Scratch folder;
  testing::Draw random(5);
  size_t accepted = 0, tried = 0;
  for (const auto& seed : seeds()) {
    const int mutations = testing::fuzz_rounds(seed.size() > 20'000 ? 15 : 400);
    for (int i = 0; i < mutations; ++i) {
      std::string bytes = seed;
      // One change goes deep; of large files, which have most of their bytes in what is skipped, many hit something.
      const size_t most = random.below(2) == 0 ? 3 : 3 + seed.size() / 4000;
      for (size_t changes = 1 + random.below(most); changes > 0; --changes) {
        const size_t at = random.below(bytes.size());
        switch (random.below(4)) {
          case 0: bytes[at] ^= static_cast<char>(1u << random.below(8)); break;
          case 1: bytes[at] = random.byte(); break;
          case 2: bytes.erase(at, 1 + random.below(3)); break;
          default: bytes.insert(at, 1 + random.below(3), random.byte());
        }
      }
      accepted += read_all(folder, bytes) > 0;
      ++tried;
    }
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, tried);
}

}  // namespace
}  // namespace foretime::data
