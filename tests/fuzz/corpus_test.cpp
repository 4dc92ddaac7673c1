/// What fuzzers start from and what they have found, run once by ordinary builds, with a few changes of each.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zip.h>

#include "tests/fuzz/targets.h"
#include "tests/support/fuzzing.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::fuzz {
namespace {

std::vector<std::string> found(const std::string& target) {
  std::vector<std::filesystem::path> files;
  const auto folder = foretime::testing::source_dir() / "tests/fuzz/corpus" / target;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<std::string> inputs;
  for (const auto& file : files) inputs.push_back(foretime::testing::read_text(file));
  return inputs;
}

/// What `tools/check/fuzz.sh --keep` has kept.
std::vector<std::string> kept(const std::string& target) {
  const auto path = foretime::testing::source_dir() / "tests/fuzz/corpus" / (target + ".zip");
  int error = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY, &error), zip_discard);
  EXPECT_NE(archive, nullptr) << path << ": error " << error << " of libzip";
  std::vector<std::string> inputs;
  for (zip_int64_t i = 0; archive && i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t status;
    EXPECT_EQ(zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &status), 0);
    std::string input(status.size, '\0');
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0), zip_fclose);
    EXPECT_EQ(zip_fread(file.get(), input.data(), input.size()), static_cast<zip_int64_t>(input.size()));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// A part cut out, doubled or overwritten, or some bytes changed.
std::string changed(const std::string& input, std::mt19937& random) {
  if (input.empty()) return std::string(1, static_cast<char>(random()));
  std::string result = input;
  const size_t at = random() % result.size(), size = std::min<size_t>(1 + random() % 20, result.size() - at);
  switch (random() % 4) {
    case 0: result.erase(at, size); break;
    case 1: result.insert(at, result.substr(at, size)); break;
    case 2: result.replace(at, size, result.substr(random() % result.size(), size)); break;
    default: result[at] = static_cast<char>(random());
  }
  return result;
}

/// Forms that nobody wrote: most are refused, and none may do harm.
TEST(Forms, EditedAtRandomAreRunOrRefused) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string edits(2 + random() % 60, '\0');
    for (char& c : edits) c = static_cast<char>(random());
    edits.front() = static_cast<char>('0' + 5 + i % 5);
    run_graph(edits);
  }
}

class Corpus : public ::testing::TestWithParam<const char*> {};

TEST_P(Corpus, IsReadOrRefused) {
  const std::string target = GetParam();
  const auto run = targets().at(target);
  auto inputs = seeds(target);
  ASSERT_FALSE(inputs.empty());
  for (auto& input : found(target)) inputs.push_back(std::move(input));
  const int changes = foretime::testing::fuzz_rounds(target == "runs"    ? 5
                                                     : target == "store" ? 20
                                                                         : 100);  // real files take their time
  std::mt19937 random(11);
  run("");
  for (const auto& input : inputs) {
    run(input);
    for (int i = 0; i < changes; ++i) run(changed(input, random));
  }
  for (const auto& input : kept(target)) {
    run(input);
    run(changed(input, random));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Corpus,
                         ::testing::Values("bundle", "graph", "tir", "records", "hlo", "serve", "http", "capi",
                                           "packed", "npz", "files", "settings", "progress", "redis", "checkpoints",
                                           "artifacts", "lines", "runs", "board", "store"));

}  // namespace
}  // namespace foretime::fuzz
