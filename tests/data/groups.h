#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/graphs/group.h"
#include "data/graphs/program_nodes.h"
#include "tests/support/scratch.h"

/// Small valid groups of each kind, and comparison of all that a group holds.
namespace foretime::testing {
using namespace data;

inline GraphBlock make_graphs(int64_t graphs, std::mt19937& random) {
  GraphBlock block;
  std::vector<int64_t> graph_ptr = {0}, edge_ptr = {0};
  std::vector<int32_t> source, target;
  for (int64_t g = 0; g < graphs; ++g) {
    const auto nodes = static_cast<int32_t>(2 + random() % 9), first = static_cast<int32_t>(graph_ptr.back());
    for (int32_t v = 1; v < nodes; ++v) {
      source.push_back(first + static_cast<int32_t>(random() % v));
      target.push_back(first + v);
    }
    graph_ptr.push_back(graph_ptr.back() + nodes);
    edge_ptr.push_back(static_cast<int64_t>(source.size()));
  }
  std::vector<float> features(static_cast<size_t>(graph_ptr.back() * 3));
  for (float& x : features) x = static_cast<float>(random() % 1000) - 500.0F;
  std::vector<uint8_t> types(static_cast<size_t>(graph_ptr.back()));
  for (uint8_t& type : types) type = static_cast<uint8_t>(random() % 7);
  block.feature_count = 3;
  block.node_type_count = 7;
  block.graph_ptr = graph_ptr;
  block.edge_ptr = edge_ptr;
  block.node_features = features;
  block.node_types = types;
  block.edge_source = source;
  block.edge_target = target;
  return block;
}

inline Group make_group(CandidateKind kind, const std::string& name, uint32_t seed) {
  std::mt19937 random(seed);
  Group group;
  group.name = name;
  group.kind = kind;
  group.candidates = 5;
  group.graphs = make_graphs(kind == CandidateKind::program ? 5 : 1, random);
  std::vector<double> runtimes(5);
  for (double& t : runtimes) t = 1.0 + static_cast<double>(random() % 9999);
  group.runtimes = runtimes;
  if (kind == CandidateKind::layout) {
    group.layout.nodes = std::vector<int32_t>{0, 1};
    group.layout.row_ptr = std::vector<int64_t>{0, 3, 5};
    std::vector<int8_t> rows(5 * kLayoutFeatures);
    for (int8_t& x : rows) x = static_cast<int8_t>(random() % 7 - 1);
    group.layout.rows = rows;
    group.layout.codes = std::vector<uint8_t>{0, 0, 2, 1, 1, 0, 2, 1, 0, 1};
    group.node_splits = std::vector<int64_t>{0, 1, group.graphs.nodes()};
  } else if (kind == CandidateKind::tile) {
    group.unit = RuntimeUnit::normalized;
    std::vector<float> features(5 * kTileFeatures);
    for (float& x : features) x = static_cast<float>(random() % 64);
    group.tile_features = features;
  } else {
    group.unit = RuntimeUnit::seconds;
    group.flops = std::vector<double>(5, 1e9);
    group.candidate_ids = {"a", "", "third one", "d\nd", "e"};
  }
  return group;
}

template <class T>
void expect_same(const char* what, const Array<T>& a, const Array<T>& b) {
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << what;
}

inline void expect_same(const GraphBlock& a, const GraphBlock& b) {
  EXPECT_EQ(a.feature_count, b.feature_count);
  EXPECT_EQ(a.node_type_count, b.node_type_count);
  expect_same("graph_ptr", a.graph_ptr, b.graph_ptr);
  expect_same("edge_ptr", a.edge_ptr, b.edge_ptr);
  expect_same("node_features", a.node_features, b.node_features);
  expect_same("node_types", a.node_types, b.node_types);
  expect_same("edge_source", a.edge_source, b.edge_source);
  expect_same("edge_target", a.edge_target, b.edge_target);
}

inline void expect_same(const LayoutCandidates& a, const LayoutCandidates& b) {
  expect_same("layout nodes", a.nodes, b.nodes);
  expect_same("layout row_ptr", a.row_ptr, b.row_ptr);
  expect_same("layout rows", a.rows, b.rows);
  expect_same("layout codes", a.codes, b.codes);
}

inline void expect_same(const Group& a, const Group& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.collection, b.collection);
  EXPECT_EQ(a.unit, b.unit);
  EXPECT_EQ(a.candidates, b.candidates);
  expect_same(a.graphs, b.graphs);
  expect_same(a.layout, b.layout);
  expect_same("tile_features", a.tile_features, b.tile_features);
  expect_same("runtimes", a.runtimes, b.runtimes);
  expect_same("flops", a.flops, b.flops);
  expect_same("node_splits", a.node_splits, b.node_splits);
  EXPECT_EQ(a.candidate_ids, b.candidate_ids);
}

/// One of several syntax trees.
inline data::ProgramNodes tree_of(data::ProgramNodes trees, int64_t graph) {
  const auto first = trees.graph_ptr.at(static_cast<size_t>(graph)),
             last = trees.graph_ptr.at(static_cast<size_t>(graph) + 1);
  trees.visit_arrays([&](auto& values) {
    values.erase(values.begin() + last, values.end());
    values.erase(values.begin(), values.begin() + first);
  });
  trees.graph_ptr = {0, last - first};
  return trees;
}

}  // namespace foretime::testing
