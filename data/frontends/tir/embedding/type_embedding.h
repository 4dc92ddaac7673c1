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

/// Sets the random walks over program graphs. FastText learns from the walks' node types, one sentence for each walk.
struct TypeWalkSettings {
  int64_t walks = 4000;  // number of walks over all groups; a group's share is proportional to its number of nodes
  int64_t length = 24;   // largest number of nodes in a walk
  uint64_t seed = 0;     // seed of the walks and of FastText
};

/// Sets the training of the vectors of node types.
struct TypeEmbeddingSettings {
  TypeWalkSettings walks;
  int64_t dims = 18;   // length of a vector
  int64_t epochs = 5;  // passes over the walks
  int64_t window = 5;  // largest distance, in nodes of a walk, between a node type and a node type predicted from it
  double learning_rate = 0.05;
  /// Makes a type's vector a sum over the character n-grams of the type's name, so that BufferLoad and BufferStore
  /// share parts; otherwise the letters of a name do not matter.
  bool subwords = true;
};

/// Holds a vector for each node type. Models store them with their weights.
struct TypeEmbeddings {
  int64_t dims = 0;
  std::vector<std::string> names;    // [types]
  std::vector<int64_t> occurrences;  // [types] occurrences in the walks; 0 or 1 if the vectors were read from a file
  std::vector<float> vectors;        // [types, dims]; a type without occurrences has the mean of the other vectors

  int64_t types() const { return names.size(); }
  std::span<const float> of(int64_t type) const;  // [dims] vector of a type
};

/// Sets the vectors of types without occurrences to the mean of all others, of which there must be one or more.
void fill_unmet(TypeEmbeddings& embeddings);

/// Makes random walks over the edges in both directions, through uniformly drawn nodes of each group. A walk ends at a
/// dead end instead of turning back. Calls `visit` with the node types of each walk; walks of a single node, which has
/// no neighbours, are skipped. Equal groups and settings give equal walks.
void walk_node_types(std::span<const Group* const> groups, const TypeWalkSettings& settings,
                     const std::function<void(std::span<const uint8_t> types)>& visit);

/// Trains FastText skip-grams (Bojanowski et al., "Enriching Word Vectors with Subword Information", 2017) with the
/// exact softmax on the walks of walk_node_types(). Uses one thread: equal groups and settings give equal vectors.
/// Holds the walks in memory as text (at most 2^28 bytes). `names` are the words of the node types: tir_type_names()
/// for programs. Throws DataError if no graph has an edge, a group has more node types than `names`, a name is not one
/// word, a setting is out of range, or FastText fails.
TypeEmbeddings train_type_embeddings(std::span<const Group* const> groups, std::span<const std::string_view> names,
                                     const TypeEmbeddingSettings& settings);

/// Reads FastText's text form of word vectors (.vec): a line with the numbers of words and columns, then a line for
/// each word: its name and its numbers, separated by blanks. Returns the vectors of `names`; other words are skipped.
/// A name that the file lacks gets the mean of the found vectors and an occurrence count of 0; found names have 1.
/// Throws DataError, with file and line where there is one, for files of more than 2^28 bytes, another number of
/// columns than `dims`, numbers of a found name that are not finite, a name that occurs twice, a number of lines that
/// differs from the first line, and if none of the names is found.
TypeEmbeddings read_type_vectors(const std::filesystem::path& file, std::span<const std::string_view> names,
                                 int64_t dims);

}  // namespace foretime::data
