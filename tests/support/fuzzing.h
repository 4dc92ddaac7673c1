#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

/// Tests that change good input at random.
namespace foretime::testing {

/// A number of the environment: FORETIME_FUZZ=20 asks for twenty times as many trials, FORETIME_FUZZ_SEED for others.
inline int environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}
inline int fuzz_rounds(int rounds) { return rounds * environment("FORETIME_FUZZ", 1); }

/// Numbers drawn from a seed.
class Draw {
 public:
  explicit Draw(int seed) : random_(static_cast<uint32_t>(environment("FORETIME_FUZZ_SEED", seed))) {}
  /// In 0 to limit − 1; limit is not 0.
  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }
  char byte() { return static_cast<char>(below(256)); }
  template <class List>
  auto& of(List& list) {
    return list[below(std::size(list))];
  }

 protected:
  std::mt19937 random_;
};

}  // namespace foretime::testing
