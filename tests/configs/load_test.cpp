#include "configs/load.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/fields.h"
#include "tests/configs/equal_settings.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"

namespace foretime::configs {
namespace {

using foretime::testing::message_of;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return message_of<SettingsError>([&] { parse_settings(yaml, "run.yaml", overrides); });
}

TEST(ParseSettings, ReadsEveryTypeAndKeepsOtherDefaults) {
  const Settings settings = parse_settings(R"(
data:
  train: [samples/a.npz, "samples/b*.npz"]
  valid:
    - samples/c.npz
  holdout: 0.2
model: {hidden: 64, residual: false, features: {log: true, layout_scale: 1}}
optimizer:
  learning_rate: 3e-4
trainer:
  seed: 18446744073709551615
  early_stop: {patience: 3}
  eval_every: +10
run:
  directory: runs/2024
)",
                                           "run.yaml");
  Settings expected;
  expected.data.train = {"samples/a.npz", "samples/b*.npz"};
  expected.data.valid = {"samples/c.npz"};
  expected.data.holdout = 0.2;
  expected.model.hidden = 64;
  expected.model.residual = false;
  expected.model.features.log = true;
  expected.model.features.layout_scale = 1.0;
  expected.optimizer.learning_rate = 3e-4;
  expected.trainer.seed = 18446744073709551615u;
  expected.trainer.early_stop.patience = 3;
  expected.trainer.eval_every = 10;
  expected.run.directory = "runs/2024";
  expect_equal(settings, expected);
}

TEST(ParseSettings, AMapWithoutKeysGivesTheDefaults) {
  expect_equal(parse_settings("{}", "run.yaml"), Settings());
  expect_equal(parse_settings("model:\n  # hidden: 3\n", "run.yaml"), Settings());
}

TEST(ParseSettings, AStringStandsForAListOfOne) {
  EXPECT_EQ(parse_settings("data: {train: a.npz}", "run.yaml").data.train, std::vector<std::string>{"a.npz"});
}

TEST(ParseSettings, UnknownKeysComeWithTheNearestName) {
  EXPECT_MESSAGE(error_of("model:\n  hidden: 3\n  hiden: 4\n"), "run.yaml:3: model.hiden");
  EXPECT_MESSAGE(error_of("modle: {}"), "run.yaml:1: modle");
  EXPECT_MESSAGE(error_of("learning_rate: 1"), "run.yaml:1: learning_rate");
  EXPECT_MESSAGE(error_of("trainer: {early_stop: {patient: 1}}"), "run.yaml:1: trainer.early_stop.patient");
}

TEST(ParseSettings, UnknownKeysThatResembleNothingListTheSection) {
  EXPECT_MESSAGE(error_of("run: {zebra: 1}"), "run.yaml:1: run.zebra");
  EXPECT_MESSAGE(error_of("zebra: 1"));
}

TEST(ParseSettings, DuplicateKeysAreRefused) {
  EXPECT_MESSAGE(error_of("model:\n  hidden: 3\n  hidden: 4\n"), "run.yaml:3: model.hidden");
  EXPECT_MESSAGE(error_of("model: {}\nmodel: {}\n"), "run.yaml:2: model");
}

TEST(ParseSettings, WrongTypesNameKeyLineAndBothTypes) {
  EXPECT_MESSAGE(error_of("\nmodel:\n  hidden: abc\n"), "run.yaml:3: model.hidden");
  EXPECT_MESSAGE(error_of("model: {hidden: 1.5}"), "run.yaml:1: model.hidden");
  EXPECT_MESSAGE(error_of("model: {hidden: [1, 2]}"), "run.yaml:1: model.hidden");
  EXPECT_MESSAGE(error_of("model: {hidden: {a: 1}}"), "run.yaml:1: model.hidden");
  EXPECT_MESSAGE(error_of("model: {hidden: }"), "run.yaml:1: model.hidden");
  EXPECT_MESSAGE(error_of("model: {hidden: '3'}"), "run.yaml:1: model.hidden");
  EXPECT_MESSAGE(error_of("model: {type: [mlp]}"), "run.yaml:1: model.type");
  EXPECT_MESSAGE(error_of("model: {dropout: 0.1x}"), "run.yaml:1: model.dropout");
  EXPECT_MESSAGE(error_of("model: {residual: yes}"), "run.yaml:1: model.residual");
  EXPECT_MESSAGE(error_of("model: {residual: 1}"), "run.yaml:1: model.residual");
  EXPECT_MESSAGE(error_of("data: {train: {a: b}}"), "run.yaml:1: data.train");
  EXPECT_MESSAGE(error_of("data: {train: [a, [b]]}"), "run.yaml:1: data.train");
  EXPECT_MESSAGE(error_of("data:\n  eval_indices:\n"), "run.yaml:2: data.eval_indices");
  EXPECT_MESSAGE(error_of("trainer: {seed: -1}"), "run.yaml:1: trainer.seed");
  EXPECT_MESSAGE(error_of("model: 3"), "run.yaml:1: model");
  EXPECT_MESSAGE(error_of("model: [a]"), "run.yaml:1: model");
}

TEST(ParseSettings, NumbersThatDoNotFitAreRefused) {
  EXPECT_MESSAGE(error_of("model: {hidden: 9223372036854775808}"), "run.yaml:1: model.hidden");
  EXPECT_THAT(error_of("trainer: {seed: 18446744073709551616}"), HasSubstr("to 18446744073709551615"));
  EXPECT_MESSAGE(error_of("optimizer: {learning_rate: 1e999}"));
  for (const char* text : {"inf", "nan", ".inf", ".nan", "-inf", "0x10", "1e", "+-1", "+", "1 2", "1_000"}) {
    EXPECT_THAT(error_of(std::string("optimizer: {learning_rate: ") + text + "}"),
                HasSubstr("optimizer.learning_rate: found"))
        << text;
  }
}

TEST(ParseSettings, BoundsNameKeyAndLine) {
  EXPECT_EQ(error_of("optimizer:\n  type: adam\n  learning_rate: -1\n"),
            "run.yaml:3: optimizer.learning_rate: found -1, expected >= 0");
  EXPECT_MESSAGE(error_of("data: {holdout: 1}"), "run.yaml:1: data.holdout");
  EXPECT_EQ(error_of("model: {hidden: 0}"), "run.yaml:1: model.hidden: found 0, expected >= 1");
  EXPECT_MESSAGE(error_of("optimizer: {type: sgd}"), "run.yaml:1: optimizer.type");
  EXPECT_MESSAGE(error_of("model: {readout: []}"), "model.readout");
  EXPECT_MESSAGE(error_of("model: {readout: [mean, median]}"), "model.readout");
  EXPECT_MESSAGE(error_of("run: {directory: ''}"), "run.yaml:1: run.directory");
}

TEST(ParseSettings, ContradictionsAreRefused) {
  EXPECT_THAT(error_of("sampler: {candidates_per_group: 1}"),
              StartsWith("run.yaml: sampler.candidates_per_group: found 1"));
  parse_settings("sampler: {candidates_per_group: 1}\nloss: {type: huber}", "run.yaml");
  EXPECT_THAT(error_of("trainer: {early_stop: {patience: 2}}"), HasSubstr("set trainer.eval_every"));
  parse_settings("trainer: {early_stop: {patience: 2}, eval_every: 5}", "run.yaml");
  EXPECT_THAT(error_of("comm: {backend: nccl}\ntrainer: {device: cpu}"), HasSubstr("comm.backend: found nccl"));
}

TEST(ParseSettings, SegmentsThatCannotBeAreRefused) {
  EXPECT_MESSAGE(error_of("data: {format: tile}\nsampler: {max_segment_nodes: 1000}"), "sampler.max_segment_nodes");
  EXPECT_THAT(error_of("segments: {finetune_steps: 5}"), HasSubstr("set sampler.max_segment_nodes"));
  EXPECT_MESSAGE(error_of("segments: {finetune_steps: 50}\nsampler: {max_segment_nodes: 9}\ntrainer: {steps: 50}"),
                 "segments.finetune_steps");
  EXPECT_MESSAGE(
      error_of("segments: {stale: full_forward}\nsampler: {max_segment_nodes: 9}\nshard: {max_rank_bytes: 1}"));
  EXPECT_MESSAGE(error_of("segments: {keep_probability: 1.5}"));
  parse_settings("segments: {stale: pools, finetune_steps: 5}\nsampler: {max_segment_nodes: 9}", "run.yaml");
}

TEST(ParseSettings, PruningThatCannotBeIsRefused) {
  EXPECT_MESSAGE(error_of("data: {format: tile, prune_hops: 2}"), "data.prune_hops");
  EXPECT_MESSAGE(error_of("data: {prune_hops: 0}\nsampler: {max_segment_nodes: 9}\nshard: {max_rank_bytes: 1}"),
                 "data.prune_hops");
  EXPECT_THAT(error_of("data: {prune_hops: -2}"), HasSubstr("found -2, expected >= -1"));
  parse_settings("data: {prune_hops: 0}\nsampler: {max_segment_nodes: 9}", "run.yaml");
  parse_settings("data: {format: tile, prune_hops: -1}\nshard: {max_rank_bytes: 1}", "run.yaml");
}

TEST(ParseSettings, AveragingOfNoStepIsRefused) {
  EXPECT_MESSAGE(error_of("averaging: {type: swa, start: 0.75, every_steps: 26}\ntrainer: {steps: 100}"),
                 "averaging.every_steps");
  EXPECT_MESSAGE(error_of("averaging: {start: 1}"));
  EXPECT_MESSAGE(error_of("averaging: {type: polyak}"));
  parse_settings("averaging: {type: swa, start: 0.75, every_steps: 25}\ntrainer: {steps: 100}", "run.yaml");
  parse_settings("averaging: {type: ema, every_steps: 1000}\ntrainer: {steps: 100}", "run.yaml");
}

TEST(ParseSettings, WhatOnlyProgramsHaveIsRefusedForOthers) {
  EXPECT_MESSAGE(error_of("data: {representation: loops}"), "data.representation");
  EXPECT_MESSAGE(error_of("data: {format: programs, representation: loops}\nmodel: {node_types: {vectors: fasttext}}"));
  EXPECT_MESSAGE(error_of("data: {format: tile}\nmodel: {type: tpgnn}"), "model.type");
  EXPECT_MESSAGE(error_of("model: {node_types: {vectors: fasttext}}"), "model.node_types.vectors");
  EXPECT_MESSAGE(error_of("data: {format: programs, node_type_vectors: a.vec}"), "data.node_type_vectors");
  EXPECT_MESSAGE(error_of("model: {node_types: {walk_length: 1}}"));
  parse_settings(
      "data: {format: programs, node_type_vectors: a.vec}\nmodel: {type: tpgnn, node_types: {vectors: fasttext}}",
      "run.yaml");
}

TEST(ParseSettings, ModelsThatCannotBeAreRefused) {
  EXPECT_MESSAGE(error_of("model: {type: stacked}"), "model.stacked.convolutions");
  EXPECT_MESSAGE(error_of("model: {type: stacked, stacked: {convolutions: [mlp]}}"), "model.stacked.convolutions");
  EXPECT_MESSAGE(error_of("model: {candidate_attention: true}\nsampler: {max_segment_nodes: 9}"),
                 "model.candidate_attention");
  EXPECT_MESSAGE(error_of("model: {norm: batch}\nsampler: {max_segment_nodes: 9}"), "model.norm");
  EXPECT_MESSAGE(error_of("trainer: {cross_fitting: true}"), "trainer.cross_fitting");
  EXPECT_MESSAGE(error_of("model: {ensemble_size: 2}\ntrainer: {cross_fitting: true}\nsampler: {max_segment_nodes: 9}"),
                 "trainer.cross_fitting");
  EXPECT_MESSAGE(error_of("model: {layout_gate: true, encoder_layers: 0}"), "model.layout_gate");
  parse_settings("model: {type: stacked, stacked: {convolutions: [chebnet, sage]}}", "run.yaml");
}

TEST(ParseSettings, SectionsOfOtherModelTypesAreRefused) {
  EXPECT_MESSAGE(error_of("model:\n  type: sage\n  gat: {heads: 8}\n"), "run.yaml:3: model.gat.heads");
  EXPECT_THAT(error_of("model: {type: gcn}", {"model.chebnet.order=2"}), HasSubstr("override model.chebnet.order=2: "));
  parse_settings("model: {type: gat, gat: {heads: 8}}", "run.yaml", {"model.type=gcn"});
  parse_settings("model: {sage: {aggregation: max}}\ntrainer: {baselines: [sage]}", "run.yaml");
  parse_settings("model: {type: stacked, stacked: {convolutions: [gat]}, gat: {heads: 8}}", "run.yaml");
  EXPECT_THAT(error_of("model: {type: stacked, stacked: {convolutions: [gat]}, gin: {directions: together}}"),
              HasSubstr("model.gin.directions: only"));
}

TEST(ParseSettings, WordsOfAChoiceComeWithTheNearestOne) {
  EXPECT_MESSAGE(error_of("loss: {type: lisstmle}"), "run.yaml:1: loss.type");
  Settings settings;
  for (const Field& field : list_fields(settings).fields) {
    for (const std::string& word : split_words(field.words())) {
      apply_override(settings, field.key, word);
      EXPECT_THAT(write_value(field.value), AnyOf(word, "[" + word + "]", '"' + word + '"')) << field.key;
    }
  }
  EXPECT_EQ(settings.comm.backend, Backend::nccl);
}

TEST(MessageHops, CountStepsAndNotLayers) {
  const auto hops = [](const std::string& model) {
    return message_hops(parse_settings("model: {" + model + "}", "run.yaml").model);
  };
  EXPECT_EQ(hops("type: mlp, layers: 3"), 0);
  EXPECT_EQ(hops("type: gat, layers: 3"), 3);
  EXPECT_EQ(hops("type: chebnet, layers: 3, chebnet: {order: 4}"), 9);
  EXPECT_EQ(hops("type: stacked, layers: 7, stacked: {convolutions: [chebnet, sage]}, chebnet: {order: 3}"), 3);
}

TEST(ParseSettings, TextThatIsNoMapIsRefused) {
  EXPECT_MESSAGE(error_of(""), "run.yaml");
  EXPECT_MESSAGE(error_of("# only a comment\n"), "run.yaml");
  EXPECT_MESSAGE(error_of("- a\n"), "run.yaml:1");
  EXPECT_MESSAGE(error_of("hello"), "run.yaml:1");
  EXPECT_MESSAGE(error_of("? [a]\n: 1\n"));
  EXPECT_MESSAGE(error_of("model: {}\n---\nmodel: {}\n"));
}

TEST(ParseSettings, TextWithDocumentsWithoutEndIsRefused) {
  EXPECT_MESSAGE(error_of(","), "run.yaml");
  EXPECT_MESSAGE(error_of(", e: \"f\""), "run.yaml");
  EXPECT_MESSAGE(error_of("[1], e"), "run.yaml:1");
}

TEST(ParseSettings, SyntaxErrorsNameTheLine) {
  EXPECT_MESSAGE(error_of("model:\n  hidden: 3\n type: mlp\n"), "run.yaml:3");
  EXPECT_MESSAGE(error_of("model: {hidden: 3\n"));
  EXPECT_MESSAGE(error_of("model: *nowhere\n"));
  EXPECT_MESSAGE(error_of("data:\n  train: [*.npz]\n"), "run.yaml:2");
  EXPECT_MESSAGE(error_of("data:\n  train: [*.npz]\n"));
}

using LoadSettings = foretime::testing::ScratchTest;

std::string error_of_file(const std::filesystem::path& file) {
  return message_of<SettingsError>([&] { load_settings(file); });
}

TEST_F(LoadSettings, ReadsAFileThenOverrides) {
  const auto file = scratch_.write("a.yaml", "model: {hidden: 8, layers: 3}\n");
  const Settings settings = load_settings(file, {"model.hidden=16"});
  EXPECT_EQ(settings.model.hidden, 16);
  EXPECT_EQ(settings.model.layers, 3);
}

TEST_F(LoadSettings, FilesThatCannotBeReadSayWhy) {
  EXPECT_MESSAGE(error_of_file(folder_ / "none.yaml"), (folder_ / "none.yaml").string());
  EXPECT_MESSAGE(error_of_file(folder_), folder_.string());
  EXPECT_MESSAGE(error_of_file(scratch_.write("empty.yaml", "")), (folder_ / "empty.yaml").string());
}

TEST(ShippedSettings, Load) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(foretime::testing::source_dir() / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_NO_THROW(load_settings(entry.path())) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace foretime::configs
