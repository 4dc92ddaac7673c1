/// Damaged files: DataError, or a group that keeps every rule. Never a crash.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "data/frontends/hlo/hlo_groups.h"
#include "data/graphs/validate.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

using foretime::testing::Scratch;

/// FORETIME_FUZZ=20 makes twenty times as many mutations, other ones with FORETIME_FUZZ_SEED.
int environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

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
  const auto data = foretime::testing::data_dir();
  for (const char* name : {"module_tuning_data_layout.pb", "op_tuning_data.pb"}) {
    std::ifstream file(data / "tpugraphs/pb" / name, std::ios::binary);
    if (!data.empty() && file)
      files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// Groups of the file that were read.
size_t read_all(const Scratch& folder, const std::string& bytes, std::optional<HloMessage> message = {}) {
  const auto path = testing::write_file(folder, bytes);
  size_t read = 0;
  try {
    const HloFile file(path, message);
    for (const auto& module : file.modules()) {
      const HloGroup made = read_hlo_group(file, module, {.nodes = 10'000});
      validate_group(made.group, "fuzz");
      ++read;
    }
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("test.pb"), std::string::npos) << error.what();
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
  std::mt19937 random(static_cast<uint32_t>(environment("FORETIME_FUZZ_SEED", 5)));
  const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  const int rounds = environment("FORETIME_FUZZ", 1);
  size_t accepted = 0, tried = 0;
  for (const auto& seed : seeds()) {
    const int mutations = rounds * (seed.size() > 20'000 ? 15 : 400);
    for (int i = 0; i < mutations; ++i) {
      std::string bytes = seed;
      // One change goes deep; of large files, which have most of their bytes in what is skipped, many hit something.
      for (size_t changes = 1 + below(below(2) == 0 ? 3 : 3 + seed.size() / 4000); changes > 0; --changes) {
        switch (below(4)) {
          case 0:
            bytes[below(bytes.size())] ^= static_cast<char>(1u << below(8));
            break;
          case 1:
            bytes[below(bytes.size())] = static_cast<char>(below(256));
            break;
          case 2:
            bytes.erase(below(bytes.size()), 1 + below(3));
            break;
          default:
            bytes.insert(below(bytes.size()), 1 + below(3), static_cast<char>(below(256)));
        }
      }
      const std::optional<HloMessage> messages[] = {
          {}, {}, HloMessage::module, HloMessage::hlo, HloMessage::module_tuning, HloMessage::tuning};
      accepted += read_all(folder, bytes, messages[below(std::size(messages))]) > 0;
      ++tried;
    }
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, tried);
}

}  // namespace
}  // namespace foretime::data
