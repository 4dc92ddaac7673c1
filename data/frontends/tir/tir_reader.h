#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "data/frontends/tir/tir_document.h"
#include "data/graphs/program_nodes.h"
#include "data/graphs/schema.h"

namespace foretime::data {

/// Limits the size of syntax trees. A text of a few kilobytes can describe a tree of 2^1000 nodes, because shared nodes
/// are written once; the largest tree of the public data has 17,147 nodes and 404 levels.
struct TirLimits {
  int64_t nodes = 1 << 20;  // sum over all trees of one document
  int64_t depth = 4096;     // levels in one tree
};

/// Summarizes the documents read so far.
struct TirSummary {
  int64_t documents = 0, trees = 0;
  int64_t dag_nodes = 0, tree_nodes = 0;         // nodes before and after unfolding
  int64_t largest_tree = 0, deepest_tree = 0;    // nodes, levels
  std::array<int64_t, kTirTypes> node_types{};   // nodes of all trees, by tir_type_names()
  std::map<std::string, int64_t> unknown_types;  // type key -> Unknown nodes with it
  std::map<std::string, int64_t> versions;       // TVM version -> documents
  std::array<int64_t, kCallOps> call_ops{};      // calls, by call_op_names()
};

class TirUnfolder;

/// Returns whether the version is v0.8 to v0.14, whose node types and fields this reader knows. Other versions are read
/// as well.
bool is_known_tvm_version(std::string_view version);

/// Reads `tvm.ir.save_json` text of TVM v0.8 to v0.14 into the syntax trees of a program group. A document holds one
/// tree, or one for each PrimFunc of an IRModule, in the order of its functions.
///
/// Children of a node are its expressions and statements. Skipped are binders and names (variables of loops and
/// allocations, buffers, ranges of block axes, regions) and constant loop bounds, extents and conditions, which are
/// properties of their node. Nodes of unknown types become leaves of type Unknown.
class TirReader {
 public:
  explicit TirReader(const TirLimits& limits = {});
  ~TirReader();
  TirReader(TirReader&&) noexcept;
  TirReader& operator=(TirReader&&) noexcept;

  /// Appends the document's trees to `trees`; returns their number. Throws DataError `origin: node 12 (tir.For): found,
  /// expected` for invalid text or a tree above the limits; `trees` is then unchanged.
  int64_t read(std::string_view text, const std::string& origin, ProgramNodes& trees);

  const TirSummary& summary() const { return summary_; }

 private:
  void count(const ProgramNodes& trees, int64_t first_tree);

  TirDocument document_;
  std::unique_ptr<TirUnfolder> unfolder_;
  TirSummary summary_;
};

}  // namespace foretime::data
