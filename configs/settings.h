#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Settings that are one of some words. An enum and its words are one declaration, so reading, printing, error messages
/// and the reference page cannot differ from the code:
///   FORETIME_CHOICE(Device, auto_, cpu, cuda);
/// A word is its enumerator without the underscore that keeps it from being a keyword.
#define FORETIME_CHOICE(Name, ...) FORETIME_CHOICE_OF(Name, __VA_ARGS__)  // so that macros in the list are expanded
#define FORETIME_CHOICE_OF(Name, ...)        \
  enum class Name : uint8_t { __VA_ARGS__ }; \
  constexpr std::string_view choice_words(Name) { return #__VA_ARGS__; }

namespace foretime::configs {

template <class T>
concept Choice = std::is_enum_v<T> && requires(T value) {
  choice_words(value);
};

/// The elements of a list as FORETIME_CHOICE has it.
std::vector<std::string> split_words(std::string_view list);
std::string word_at(std::string_view list, size_t index);
std::optional<uint8_t> index_of_word(std::string_view list, std::string_view word);

template <Choice T>
std::vector<std::string> words_of() {
  return split_words(choice_words(T()));
}

template <Choice T>
std::string word_of(T value) {
  return word_at(choice_words(value), static_cast<size_t>(value));
}

/// Empty for a word that is none of the choice's.
template <Choice T>
std::optional<T> choice_named(std::string_view word) {
  const auto index = index_of_word(choice_words(T()), word);
  return index ? std::optional(static_cast<T>(*index)) : std::nullopt;
}

/// `found X, expected one of a, b (did you mean a?)`.
std::string not_among(const std::string& found, std::string_view word, const std::vector<std::string>& words);

FORETIME_CHOICE(DataFormat, layout, tile, programs);
FORETIME_CHOICE(Representation, ast, loops, curve);
FORETIME_CHOICE(Duplicates, keep, first, mean);
FORETIME_CHOICE(FeatureTransform, none, minmax, zscore);
FORETIME_CHOICE(LayoutFeatures, scaled, learned_scale, embedding);
FORETIME_CHOICE(NodeTypeVectors, learned, fasttext);
/// Convolutions are model types and layers of a stacked model. Each is a word here and a function of this name in a
/// file of models/convolutions/; the registry there is made from this list.
#define FORETIME_CONVOLUTIONS gcn, sage, gin, gat, chebnet, transformer
FORETIME_CHOICE(ConvolutionType, FORETIME_CONVOLUTIONS);
FORETIME_CHOICE(ModelType, mlp, FORETIME_CONVOLUTIONS, stacked, residual_gcn, preactivated_gcn, tpgnn, statement_cost);
FORETIME_CHOICE(Directions, apart, together);
FORETIME_CHOICE(Aggregation, mean, max, sum);
FORETIME_CHOICE(LargestEigenvalue, two, estimated);
FORETIME_CHOICE(StatementInput, loops, accesses, statement, block);
FORETIME_CHOICE(ReadoutPart, mean, sum, max, normalized_sum, configurable_mean, configurable_sum, configurable_max,
                configurable_normalized_sum, decision_mean, decision_sum, decision_normalized_sum);
FORETIME_CHOICE(Activation, relu, leaky_relu);
FORETIME_CHOICE(Norm, none, layer, graph, batch);
FORETIME_CHOICE(StateSharing, states, invariant, none);
FORETIME_CHOICE(TileJoin, early, late);
FORETIME_CHOICE(HeadBias, none, all);
FORETIME_CHOICE(LossType, listmle, pairwise_hinge, pairwise_logistic, mse, huber, l1);
FORETIME_CHOICE(LossTarget, runtime, log_runtime, log_runtime_per_flop);
FORETIME_CHOICE(OptimizerType, adam, adamw);
FORETIME_CHOICE(ClipScope, global, tensor);
FORETIME_CHOICE(Schedule, constant, cosine);
FORETIME_CHOICE(AveragingType, none, ema, swa);
FORETIME_CHOICE(SegmentMethod, contiguous, metis);
FORETIME_CHOICE(Stale, scores, pools, full_forward, none);
FORETIME_CHOICE(Device, auto_, cpu, cuda);
FORETIME_CHOICE(Precision, float32, bfloat16);
FORETIME_CHOICE(Baseline, mean, mlp, gcn, sage, residual_gcn, tpgnn, statement_cost);
FORETIME_CHOICE(Goal, maximize, minimize);
FORETIME_CHOICE(Backend, auto_, single, mpi, nccl);

using Strings = std::vector<std::string>;

/// Every setting of a training run, as plain typed structs: configs/settings_table.h says what they mean.
#define STRUCT(Name) struct Name
#define FIELD(Type, member, value, bound, meaning) Type member = value
#define CHOICE(Type, member, word, meaning) Type member = Type::word
#define SECTION(Type, member, meaning) Type member
#include "configs/settings_table.h"
#undef STRUCT
#undef FIELD
#undef CHOICE
#undef SECTION

}  // namespace foretime::configs
