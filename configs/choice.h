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

}  // namespace foretime::configs
