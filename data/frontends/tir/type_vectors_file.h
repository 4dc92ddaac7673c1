#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "data/frontends/tir/type_embedding.h"

namespace foretime::data {

/// FastText's text form of word vectors (.vec): a line with the number of words and of columns, then a line a word: its
/// name and its numbers, with spaces between.

/// Every type's vector, in full precision: what is read again is the same.
void write_type_vectors(const TypeEmbeddings& embeddings, const std::filesystem::path& file);

/// The vectors of the words that are `names`; other words are left out. Names that the file lacks have the mean of the
/// others, and an occurrence count of 0 where those that were found have 1. Throws DataError, with file and line, for
/// files of more than 2^28 bytes, another number of columns than `dims`, numbers that are not finite, words that stand
/// there twice, fewer or more lines than the first one says, and where none of the names is found.
TypeEmbeddings read_type_vectors(const std::filesystem::path& file, std::span<const std::string_view> names,
                                 int64_t dims);

}  // namespace foretime::data
