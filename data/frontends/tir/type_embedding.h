#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Walks over program graphs, as sentences of node types: what FastText learns from.
struct TypeWalkSettings {
  int64_t walks = 4000;  // of all groups together, shared by their nodes
  int64_t length = 24;   // nodes of a walk, at most
  uint64_t seed = 0;
};

struct TypeEmbeddingSettings {
  TypeWalkSettings walks;
  int64_t dims = 18;  // S1's
  int64_t epochs = 5;
  int64_t window = 5;
  double learning_rate = 0.05;
  /// Vectors are sums over character n-grams of the names, so that BufferLoad and BufferStore share something from the
  /// start; without, a name is only a label.
  bool subwords = true;
};

/// A vector for each node type. Plain numbers: whoever keeps a model keeps them with it.
struct TypeEmbeddings {
  int64_t dims = 0;
  std::vector<std::string> names;    // [types]
  std::vector<int64_t> occurrences;  // [types] in the walks
  std::vector<float> vectors;        // [types, dims]; types that no walk met have the mean of those that were met

  int64_t types() const { return static_cast<int64_t>(names.size()); }
  std::span<const float> of(int64_t type) const;
};

/// Gives types of no occurrences the mean of the others' vectors.
void fill_unmet(TypeEmbeddings& embeddings);

/// Random walks over the edges in both directions, starting at nodes drawn evenly. A walk turns back only where there
/// is no other way. `visit` gets the node types of each walk; walks of a single node (a graph without edges) are left
/// out. The same groups and settings give the same walks.
void walk_node_types(std::span<const Group* const> groups, const TypeWalkSettings& settings,
                     const std::function<void(std::span<const uint8_t> types)>& visit);

/// FastText skip-grams (Bojanowski et al., "Enriching Word Vectors with Subword Information", 2017) over the walks, by
/// libfasttext in this process, with the exact softmax, which a vocabulary of 56 words allows. One thread: the same
/// groups and settings give the same vectors. Memory: the walks as text (at most 2^28 bytes), nothing else of note.
/// `names` are the words of the node types: tir_type_names() for programs. Throws DataError where nothing can be
/// learned from: no groups, no edges, types without a name, settings out of range.
TypeEmbeddings train_type_embeddings(std::span<const Group* const> groups, std::span<const std::string_view> names,
                                     const TypeEmbeddingSettings& settings);

/// Reads FastText's text form of word vectors (.vec): a line with the number of words and of columns, then a line a
/// word: its name and its numbers, with spaces between. Returns the vectors of the words that are `names`; other words
/// are left out. Names that the file lacks have the mean of the others, and an occurrence count of 0 where those that
/// were found have 1. Throws DataError, with file and line, for files of more than 2^28 bytes, another number of
/// columns than `dims`, numbers that are not finite, words that stand there twice, fewer or more lines than the first
/// one says, and where none of the names is found.
TypeEmbeddings read_type_vectors(const std::filesystem::path& file, std::span<const std::string_view> names,
                                 int64_t dims);

}  // namespace foretime::data
