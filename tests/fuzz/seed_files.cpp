/// Writes each target's seeds into a folder of its name below FOLDER.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/fuzz/targets.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  for (const auto& [name, run] : foretime::fuzz::targets()) {
    const auto folder = std::filesystem::path(argv[1]) / name;
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const auto& seed : foretime::fuzz::seeds(name))
      std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << seed;
  }
  return 0;
}
