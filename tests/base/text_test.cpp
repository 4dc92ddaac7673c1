#include "base/text.h"

#include <cstdio>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace foretime {
namespace {

/// The definition, by recursion over the last letters.
int slow_distance(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return static_cast<int>(std::max(a.size(), b.size()));
  const std::string a1 = a.substr(0, a.size() - 1);
  const std::string b1 = b.substr(0, b.size() - 1);
  int best =
      std::min({slow_distance(a1, b) + 1, slow_distance(a, b1) + 1, slow_distance(a1, b1) + (a.back() != b.back())});
  if (a.size() > 1 && b.size() > 1 && a.back() == b1.back() && a1.back() == b.back())
    best = std::min(best, slow_distance(a.substr(0, a.size() - 2), b.substr(0, b.size() - 2)) + 1);
  return best;
}

TEST(EditDistance, EqualsItsDefinition) {
  std::mt19937 random(1);
  const auto draw = [&] {
    std::string text(random() % 6, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string a = draw();
    const std::string b = draw();
    EXPECT_EQ(edit_distance(a, b), slow_distance(a, b)) << a << " " << b;
  }
}

TEST(EditDistance, CountsASwapOnce) {
  EXPECT_EQ(edit_distance("hidden", "hiddne"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
}

TEST(NearestName, PrefersTheSmallestSlip) {
  const std::vector<std::string> names = {"model.layers", "model.head_layers", "optimizer.beta1", "optimizer.beta2"};
  EXPECT_EQ(nearest_name("model.layer", names), "model.layers");
  EXPECT_EQ(nearest_name("model.head_layer", names), "model.head_layers");
  EXPECT_EQ(nearest_name("optimizer.beta", names), "optimizer.beta1") << "the first of equals";
}

TEST(NearestName, FindsTheRightNameInTheWrongSection) {
  const std::vector<std::string> names = {"trainer.steps", "optimizer.learning_rate"};
  EXPECT_EQ(nearest_name("learning_rate", names), "optimizer.learning_rate");
  EXPECT_EQ(nearest_name("trainer.learning_rat", names), "optimizer.learning_rate");
}

TEST(NearestName, IsSilentWhereNothingIsAlike) {
  EXPECT_EQ(nearest_name("zebra", {"model.layers"}), "");
  EXPECT_EQ(nearest_name("zebra", {}), "");
}

TEST(ShellWord, IsReadByShellsAsOneWord) {
  EXPECT_EQ(shell_word("runs/a-1.b"), "runs/a-1.b");
  for (const std::string text : {"", "runs q", "it's", "$HOME [1]*?", "a\nb", "~", "redis://h?db=1", "#x", "`id`"}) {
    const std::string command = "printf %s " + shell_word(text);
    std::FILE* printed = popen(command.c_str(), "r");
    ASSERT_NE(printed, nullptr);
    std::string found;
    for (int c = std::fgetc(printed); c != EOF; c = std::fgetc(printed)) found += static_cast<char>(c);
    EXPECT_EQ(pclose(printed), 0);
    EXPECT_EQ(found, text);
  }
}

}  // namespace
}  // namespace foretime
