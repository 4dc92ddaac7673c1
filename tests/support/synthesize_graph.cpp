/// Writes a made-up layout graph (tests/support/synthetic_graph.h) for tests in Python and benchmarks.
#include <cstdint>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "base/numbers.h"
#include "tests/support/synthetic_graph.h"

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: synthesize_graph FILE NODES CONFIGURABLE CONFIGURATIONS SEED\n";
    return 2;
  }
  try {
    const auto number = [&](int place) {
      const auto value = foretime::parse_number<uint32_t>(std::string_view(argv[place]));
      if (!value) throw foretime::DataError("argument {}: {}, expected a whole number", place, argv[place]);
      return *value;
    };
    foretime::testing::write_synthetic(
        argv[1], {.nodes = number(2), .configurable = number(3), .candidates = number(4), .seed = number(5)});
    return 0;
  } catch (const foretime::Error& error) {
    std::cerr << "synthesize_graph: " << error.what() << '\n';
    return 1;
  }
}
