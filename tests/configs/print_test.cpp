#include <cmath>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "configs/fields.h"
#include "configs/load.h"
#include "tests/configs/equal_settings.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::configs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ToYaml, PrintsEveryKeyInOrder) {
  const std::string yaml = to_yaml(Settings());
  EXPECT_THAT(yaml, StartsWith("data:\n  format: layout\n  representation: ast\n  root: .\n  train: []\n"));
  EXPECT_THAT(yaml, HasSubstr("  features:\n    transform: minmax\n    log: false\n    layout: scaled\n    "
                              "layout_scale: 100\n    layout_embedding: 4\n    columns: []\nloss:\n"));
  EXPECT_THAT(yaml, HasSubstr("    min_delta: 0\n  tie_threshold_candidates: 0\n"))
      << "back in trainer after its early_stop";
  EXPECT_THAT(yaml, HasSubstr("  learning_rate: 0.001\n"));
  EXPECT_THAT(yaml, HasSubstr("  eval_indices: \"\"\n"));
  size_t at = 0;
  for (const std::string& key : all_keys()) {
    if (!is_read(Settings(), key)) continue;
    at = yaml.find(" " + key.substr(key.rfind('.') + 1) + ":", at);
    ASSERT_NE(at, std::string::npos) << key;
  }
}

TEST(ToYaml, DefaultsComeBack) { expect_equal(parse_settings(to_yaml(Settings()), "run.yaml"), Settings()); }

TEST(ToYaml, LongListsTakeALineForEachElement) {
  Settings settings;
  for (int i = 0; i < 40; ++i) settings.data.train.push_back("samples/group: " + std::to_string(i));
  const std::string yaml = to_yaml(settings);
  EXPECT_THAT(yaml, HasSubstr("  train:\n    - \"samples/group: 0\"\n    - \"samples/group: 1\"\n"));
  expect_equal(parse_settings(yaml, "run.yaml"), settings);
}

TEST(WriteValue, DoublesAreShortestAndExact) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const std::string text = write_value(&value);
    double back = 0;
    read_value(YAML::Load(text), &back);
    EXPECT_EQ(std::memcmp(&value, &back, sizeof value), 0) << text;
    char shorter[64];
    std::snprintf(shorter, sizeof shorter, "%.17g", value);
    EXPECT_LE(text.size(), std::strlen(shorter));
  }
  double tenth = 0.1;
  EXPECT_EQ(write_value(&tenth), "0.1");
}

void expect_text_comes_back(const std::string& text) {
  std::string back;
  read_value(YAML::Load(write_string(text)), &back);
  EXPECT_EQ(back, text) << write_string(text);
  std::vector<std::string> list = {text, text}, list_back;
  read_value(YAML::Load(write_value(&list)), &list_back);
  EXPECT_EQ(list_back, list);
  EXPECT_EQ(YAML::Load("key: " + write_string(text) + "\n")["key"].as<std::string>(), text);
}

TEST(WriteString, AnyTextComesBack) {
  const auto expect_all = [](const auto&... texts) { (expect_text_comes_back(texts), ...); };
  expect_all("", " ", "a", "null", "~", "true", "Yes", "NO", "123", "-1", "1e5", ".5", ".inf", ".nan", "a b", "a: b",
             "a #b", "#a", "*.npz", "&a", "!x", "- a", "-", "--- a", "...", "? a", "[a]", "{a}", "a,b", "\"", "'", "\\",
             "a\nb", "\n", "\t", " a", "a ", "@a", "`a", "%a", "|", ">", "τ größer 测试", "a\x01z", "\x7f", "0x10", "=",
             "<<", "./a", "../b", "/c", ".", "..", "samples/C1.npz", "2024-01-01", "a/b_c-d.e+f", "$HOME");
  EXPECT_EQ(write_string("samples/C1.npz"), "samples/C1.npz") << "ordinary paths need no quotes";
}

/// Every field drawn anew, so that no field can be printed under another's key.
TEST(ToYaml, RandomSettingsComeBack) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    Settings settings;
    for (const Field& field : list_fields(settings).fields) {
      if (const auto words = split_words(field.words()); !words.empty()) {
        if (is_read(settings, field.key)) apply_override(settings, field.key, words[random() % words.size()]);
        continue;
      }
      if (!is_read(settings, field.key)) continue;
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      if (auto* const* value = std::get_if<double*>(&field.value)) **value = unit == 0 ? 0.5 : unit;
      if (auto* const* value = std::get_if<int64_t*>(&field.value)) {
        do {
          **value = 2 + static_cast<int64_t>(field.bound.allows(0x1p62) ? random() >> 2 : random() % 900);
        } while (!field.bound.allows(static_cast<double>(**value)));
      }
      if (auto* const* value = std::get_if<uint64_t*>(&field.value)) **value = random();
      if (auto* const* value = std::get_if<bool*>(&field.value)) **value = random() % 2 == 0;
      std::string text(1 + random() % 8, ' ');
      for (char& c : text) c = static_cast<char>(1 + random() % 126);
      if (auto* const* value = std::get_if<std::string*>(&field.value)) **value = text;
      if (auto* const* value = std::get_if<std::vector<std::string>*>(&field.value))
        (*value)->assign(random() % 4, text);
    }
    // What cannot be meant together falls back to its default, and then what is no longer read.
    const auto reset = [&](const std::string& key) {
      Settings defaults;
      read_value(YAML::Load(write_value(list_fields(defaults).field(key)->value)),
                 list_fields(settings).field(key)->value);
    };
    for (std::string conflict; !(conflict = find_conflict(settings)).empty();)
      reset(conflict.substr(0, conflict.find(':')));
    for (const std::string& key : all_keys())
      if (!is_read(settings, key)) reset(key);
    const std::string yaml = to_yaml(settings);
    const Settings back = parse_settings(yaml, "run.yaml");
    expect_equal(back, settings);
    EXPECT_EQ(to_yaml(back), yaml);
    if (HasFailure()) FAIL() << yaml;
  }
}

TEST(ReferencePage, HasARowForEveryKey) {
  const std::string page = reference_page();
  Settings defaults;
  const FieldList list = list_fields(defaults);
  for (const Section& section : list.sections) EXPECT_THAT(page, HasSubstr("\n## " + section.key + "\n"));
  for (const Field& field : list.fields) EXPECT_THAT(page, HasSubstr("\n| `" + field.name() + "` | ")) << field.key;
  EXPECT_THAT(page, HasSubstr("| `learning_rate` | number | `0.001` | >= 0 | step size after the warm-up; 0: weights "
                              "stay as they began |\n"));
  EXPECT_THAT(page, HasSubstr("sign(x) log(1 + \\|x\\|)")) << "a bare | would end the cell";
}

TEST(ReferencePage, IsWhatDocsHold) {
  using namespace foretime::testing;
  EXPECT_EQ(read_text(source_dir() / "docs" / "reference" / "settings.md"), reference_page())
      << "docs/reference/settings.md is stale; write it anew with\n"
      << "  build/release/cli/foretime config --reference > docs/reference/settings.md";
}

}  // namespace
}  // namespace foretime::configs
