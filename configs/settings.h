#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Declares an enum together with the words of its values in settings files, so that reading, printing, error messages
/// and the reference page agree with the code:
///   FORETIME_CHOICE(Device, auto_, cpu, cuda);
/// A word is its enumerator without the underscore that avoids a keyword.
#define FORETIME_CHOICE(Name, ...) FORETIME_CHOICE_OF(Name, __VA_ARGS__)  // so that macros in the list are expanded
#define FORETIME_CHOICE_OF(Name, ...)        \
  enum class Name : uint8_t { __VA_ARGS__ }; \
  constexpr std::string_view choice_words(Name) { return #__VA_ARGS__; }

namespace foretime::configs {

template <class T>
concept Choice = std::is_enum_v<T> && requires(T value) {
  choice_words(value);
};

/// Returns the words of a comma-separated list of enumerators, each without a final underscore: auto, cpu and cuda for
/// "auto_, cpu, cuda".
std::vector<std::string> split_words(std::string_view list);
/// Returns the word at `index` of such a list of enumerators; "" beyond the list's end.
std::string word_at(std::string_view list, size_t index);
/// Returns the index of a word in such a list of enumerators; nullopt if the list does not have the word.
std::optional<uint8_t> index_of_word(std::string_view list, std::string_view word);

template <Choice T>
std::vector<std::string> words_of() {
  return split_words(choice_words(T()));
}

template <Choice T>
std::string word_of(T value) {
  return word_at(choice_words(value), static_cast<size_t>(value));
}

/// Returns the value of a word; nullopt for a word that the choice does not have.
template <Choice T>
std::optional<T> choice_named(std::string_view word) {
  const auto index = index_of_word(choice_words(T()), word);
  return index ? std::optional(static_cast<T>(*index)) : std::nullopt;
}

/// Returns `found FOUND, expected one of a, b (did you mean a?)`. The question names the nearest of `words` to `word`.
std::string not_among(const std::string& found, std::string_view word, const std::vector<std::string>& words);

FORETIME_CHOICE(DataFormat, layout, tile, programs);
FORETIME_CHOICE(Representation, ast, loops, curve);
FORETIME_CHOICE(Duplicates, keep, first, mean);
FORETIME_CHOICE(Overlap, refuse, warn);
FORETIME_CHOICE(FeatureTransform, none, minmax, zscore);
FORETIME_CHOICE(LayoutFeatures, scaled, learned_scale, embedding);
FORETIME_CHOICE(NodeTypeVectors, learned, fasttext);
/// Names the convolutions, which are model types and layers of a stacked model. Each has a function of this name in a
/// file of models/convolutions/, whose registry is made from this list.
#define FORETIME_CONVOLUTIONS gcn, sage, gin, gat, chebnet, transformer
FORETIME_CHOICE(ConvolutionType, FORETIME_CONVOLUTIONS);
FORETIME_CHOICE(ModelType, mlp, FORETIME_CONVOLUTIONS, stacked, residual_gcn, preactivated_gcn, tpgnn, statement_cost);
FORETIME_CHOICE(Directions, apart, together);
FORETIME_CHOICE(Aggregation, mean, max, sum);
FORETIME_CHOICE(StatementInput, loops, accesses, statement, block, machine);
FORETIME_CHOICE(ReadoutPart, mean, sum, max, normalized_sum, configurable_mean, configurable_sum, configurable_max,
                configurable_normalized_sum, decision_mean, decision_sum, decision_normalized_sum);
FORETIME_CHOICE(Activation, relu, leaky_relu);
FORETIME_CHOICE(Norm, none, layer, graph, batch);
FORETIME_CHOICE(StateSharing, states, invariant, none);
FORETIME_CHOICE(ResidentPlans, auto_, always, never);
FORETIME_CHOICE(TileJoin, early, late);
FORETIME_CHOICE(HeadBias, none, all);
/// The losses, by what a score is compared with. Each word is the name of the function in models/losses/losses.cpp.
#define FORETIME_LIST_LOSSES listmle                            // with the order of the whole group
#define FORETIME_PAIR_LOSSES pairwise_hinge, pairwise_logistic  // with the score of another candidate
#define FORETIME_RESIDUAL_LOSSES mse, huber, l1                 // with the target: the score is a prediction
FORETIME_CHOICE(LossType, FORETIME_LIST_LOSSES, FORETIME_PAIR_LOSSES, FORETIME_RESIDUAL_LOSSES);
/// Names what a loss compares a score with: the order of a whole group, the score of another candidate, or the target.
enum class LossKind : uint8_t { list, pair, residual };
constexpr LossKind kind_of(LossType type) {
  using enum LossType;
  for (const LossType each : {FORETIME_LIST_LOSSES})
    if (type == each) return LossKind::list;
  for (const LossType each : {FORETIME_PAIR_LOSSES})
    if (type == each) return LossKind::pair;
  return LossKind::residual;
}
FORETIME_CHOICE(LossTarget, runtime, log_runtime, log_runtime_per_flop);
FORETIME_CHOICE(OptimizerType, adam, adamw);
FORETIME_CHOICE(ClipScope, global, tensor);
FORETIME_CHOICE(Schedule, constant, cosine);
FORETIME_CHOICE(AveragingType, none, ema, swa);
FORETIME_CHOICE(SegmentMethod, contiguous, metis);
FORETIME_CHOICE(Stale, scores, pools, full_forward, none);
FORETIME_CHOICE(Device, auto_, cpu, cuda);
FORETIME_CHOICE(Precision, float32, tf32, bfloat16);
FORETIME_CHOICE(GradientType, float32, bfloat16);
FORETIME_CHOICE(Baseline, mean, mlp, gcn, sage, residual_gcn, tpgnn, statement_cost);
FORETIME_CHOICE(Goal, auto_, maximize, minimize);
FORETIME_CHOICE(Backend, auto_, single, mpi, nccl);

using Strings = std::vector<std::string>;

/// Every setting of a training run, as plain typed structs; configs/settings_table.h has their meanings.
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
