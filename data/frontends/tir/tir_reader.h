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
  int64_t nodes = 1 << 20;  // largest number of nodes of all trees of a document, and of parameters, together
  int64_t depth = 4096;     // largest number of levels of one tree
};

/// Summarizes the documents that a TirReader has read; documents with an error do not count.
struct TirSummary {
  int64_t documents = 0, trees = 0;       // number of documents and of their trees
  int64_t dag_nodes = 0, tree_nodes = 0;  // nodes in the texts, where a shared node counts once; nodes in the trees
  int64_t largest_tree = 0, deepest_tree = 0;    // nodes of the largest tree; levels of the deepest tree
  std::array<int64_t, kTirTypes> node_types{};   // number of tree nodes of each type, by tir_type_names()
  std::map<std::string, int64_t> unknown_types;  // key: unknown type key; value: number of tree nodes with it
  std::map<std::string, int64_t> versions;       // key: TVM version, "" if not named; value: number of documents
  std::array<int64_t, kCallOps> call_ops{};      // number of Call nodes of each operator, by call_op_names()
};

class TirUnfolder;

/// Reads `tvm.ir.save_json` text of TVM into the syntax trees of a program group. A document holds one tree, or an
/// IRModule with one tree for each PrimFunc, in the order of the IRModule's functions.
///
/// Children of a node are its expressions and statements. Left out are binders and names (variables of loops and
/// allocations, buffers, ranges of block axes, regions) and constant bounds, extents and predicates. Nodes of unknown
/// types become leaves of type Unknown.
class TirReader {
 public:
  explicit TirReader(const TirLimits& limits = {});
  ~TirReader();

  /// Appends the trees of the document `text` to `trees` and returns their number. Throws DataError, starting with
  /// `origin`, for invalid text, a root that is no tree and no IRModule with a PrimFunc, or trees above the limits;
  /// `trees` is then unchanged.
  int64_t read(std::string_view text, const std::string& origin, ProgramNodes& trees);

  const TirSummary& summary() const { return summary_; }
  /// Returns the TVM target that the last document names; "" if it names none. TVM's own texts name none.
  const std::string& target() const { return document_.target(); }

 private:
  /// Adds the trees from number `first_tree` on to the summary.
  void count(const ProgramNodes& trees, int64_t first_tree);

  TirDocument document_;
  std::unique_ptr<TirUnfolder> unfolder_;
  TirSummary summary_;
};

}  // namespace foretime::data
