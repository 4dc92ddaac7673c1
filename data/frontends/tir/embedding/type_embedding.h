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

/// Sets the random walks over program graphs, whose node types are the sentences that FastText learns from.
struct TypeWalkSettings {
  int64_t walks = 4000;  // total for all groups, distributed by their nodes
  int64_t length = 24;   // largest number of nodes in a walk
  uint64_t seed = 0;
};

/// Sets the training of the vectors of node types.
struct TypeEmbeddingSettings {
  TypeWalkSettings walks;
  int64_t dims = 18;
  int64_t epochs = 5;
  int64_t window = 5;
  double learning_rate = 0.05;
  /// Makes vectors sums over character n-grams of the names, so that BufferLoad and BufferStore share parts from the
  /// start; otherwise a name is only a label.
  bool subwords = true;
};

/// Holds a vector for each node type. Models store them with their weights.
struct TypeEmbeddings {
  int64_t dims = 0;
  std::vector<std::string> names;    // [types]
  std::vector<int64_t> occurrences;  // [types] number in the walks
  std::vector<float> vectors;        // [types, dims]; types absent from the walks have the mean of the others

  int64_t types() const { return names.size(); }
  std::span<const float> of(int64_t type) const;
};

/// Sets the vectors of types without occurrences to the mean of the others.
void fill_unmet(TypeEmbeddings& embeddings);

/// Makes random walks over the edges in both directions, starting at uniformly drawn nodes. A walk turns back only at a
/// dead end. Calls `visit` with the node types of each walk; walks of a single node (a graph without edges) are
/// skipped. Equal groups and settings give equal walks.
void walk_node_types(std::span<const Group* const> groups, const TypeWalkSettings& settings,
                     const std::function<void(std::span<const uint8_t> types)>& visit);

/// Trains FastText skip-grams (Bojanowski et al., "Enriching Word Vectors with Subword Information", 2017) on the
/// walks, with libfasttext in this process and the exact softmax, which is cheap for 56 words. Uses one thread: equal
/// groups and settings give equal vectors. Memory is dominated by the walks as text (at most 2^28 bytes). `names` are
/// the words of the node types: tir_type_names() for programs. Throws DataError if there are no groups or edges, a type
/// has no name, or a setting is out of range.
TypeEmbeddings train_type_embeddings(std::span<const Group* const> groups, std::span<const std::string_view> names,
                                     const TypeEmbeddingSettings& settings);

/// Reads FastText's text form of word vectors (.vec): a line with the numbers of words and columns, then a line for
/// each word: its name and its numbers, separated by spaces. Returns the vectors of `names`; other words are skipped.
/// Missing names get the mean of the others and an occurrence count of 0; found ones have 1. Throws DataError, with
/// file and line, for files of more than 2^28 bytes, another number of columns than `dims`, numbers that are not
/// finite, repeated words, a number of lines that differs from the first line, and if none of the names is found.
TypeEmbeddings read_type_vectors(const std::filesystem::path& file, std::span<const std::string_view> names,
                                 int64_t dims);

}  // namespace foretime::data
