/// Damaged save_json text: the reader throws DataError, or makes trees that keep every rule. Never a crash, never a
/// tree past the limits.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/frontends/tir/tir_file.h"
#include "data/graphs/validate.h"
#include "tests/support/paths.h"

namespace foretime::data {
namespace {

constexpr TirLimits kLimits = {.nodes = 20000, .depth = 600};

/// FORETIME_FUZZ=20 makes twenty times as many mutations, other ones with FORETIME_FUZZ_SEED.
int environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  TirFile file(testing::samples_dir() / "tir/resnet18_conv2d_save_json.jsonl.gz");
  TirRecord record;
  while (file.next(record) && texts.size() < 8) {
    for (const auto& [member, text] : record.texts) {
      if (text.size() < 200000) texts.push_back(text);
    }
  }
  return texts;
}

/// Whether the text was accepted; the trees must then be what the code behind the reader relies on.
bool accepted(TirReader& reader, const std::string& text) {
  ProgramNodes trees;
  try {
    reader.read(text, "fuzz", trees);
  } catch (const DataError&) {
    EXPECT_EQ(trees.nodes(), 0u);
    return false;
  }
  EXPECT_LE(trees.nodes(), static_cast<size_t>(kLimits.nodes));
  Group group;
  group.name = "fuzz";
  group.kind = CandidateKind::program;
  group.unit = RuntimeUnit::seconds;
  group.candidates = trees.graphs();
  group.candidate_ids.assign(static_cast<size_t>(group.candidates), "one");
  group.runtimes = std::vector<double>(static_cast<size_t>(group.candidates), 0.0);
  group.graphs = program_graphs(std::move(trees));
  EXPECT_NO_THROW(validate_group(group, "fuzz"));
  return true;
}

TEST(TirFuzz, MutatedFields) {
  std::mt19937 random(static_cast<uint32_t>(environment("FORETIME_FUZZ_SEED", 7)));
  const auto below = [&](size_t count) { return random() % count; };
  TirReader reader(kLimits);
  const char* const values[] = {"0", "1", "-1",    "4294967296",          "9223372036854775807",
                                "x", "",  "1e999", "-9223372036854775808"};
  const char* const types[] = {"",           "Array",     "Map",          "tir.For",  "tir.Add",  "tir.Var",
                               "tir.Buffer", "tir.Block", "tir.PrimFunc", "tir.Load", "Range",    "tir.Broadcast",
                               "IRModule",   "Op",        "tir.Call",     "IntImm",   "FloatImm", "tir.Ramp",
                               "nothing",    "tir.Store", "tir.Select"};
  int64_t good = 0, bad = 0;
  for (const std::string& seed : seeds()) {
    const auto original = nlohmann::json::parse(seed);
    for (int round = 0; round < 60 * environment("FORETIME_FUZZ", 1); ++round) {
      auto json = original;
      auto& nodes = json["nodes"];
      for (size_t changes = 1 + below(3); changes > 0; --changes) {
        auto& node = nodes[below(nodes.size())];
        const size_t kind = below(7);
        if (kind <= 2 && node.contains("attrs")) {
          auto attribute = node["attrs"].begin();
          std::advance(attribute, static_cast<int64_t>(below(node["attrs"].size())));
          *attribute = kind == 0 ? nlohmann::json(values[below(std::size(values))])
                                 : nlohmann::json(std::to_string(below(nodes.size())));
        } else if (kind == 3) {
          node["type_key"] = types[below(std::size(types))];
        } else if (kind == 4 && node.contains("data")) {
          node["data"][below(node["data"].size())] = below(nodes.size() + 2);
        } else if (kind == 5 && node.contains("attrs")) {
          node["attrs"].erase(node["attrs"].begin());
        } else if (kind == 6) {
          json["root"] = below(nodes.size());
        }
      }
      ++(accepted(reader, json.dump()) ? good : bad);
    }
  }
  EXPECT_GT(good, 20);  // the mutations reach behind the first check
  EXPECT_GT(bad, 20);
}

TEST(TirFuzz, MutatedBytes) {
  std::mt19937 random(static_cast<uint32_t>(environment("FORETIME_FUZZ_SEED", 11)));
  TirReader reader(kLimits);
  int64_t good = 0, bad = 0;
  for (const std::string& seed : seeds()) {
    for (int round = 0; round < 40 * environment("FORETIME_FUZZ", 1); ++round) {
      std::string text = seed;
      if (round % 4 == 0) {
        text.resize(random() % text.size());
      } else {
        for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
          const char digits[] = "0123456789";
          char& c = text[random() % text.size()];
          c = round % 4 == 1 ? static_cast<char>(random()) : digits[random() % 10];
        }
      }
      ++(accepted(reader, text) ? good : bad);
    }
  }
  EXPECT_GT(bad, 20);
}

}  // namespace
}  // namespace foretime::data
