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

/// How large a syntax tree may get. A text of a few kilobytes can stand for a tree of 2^1000 nodes, because shared
/// nodes stand once; the largest tree of the public data has 17,147, 404 levels deep.
struct TirLimits {
  int64_t nodes = 1 << 20;  // of all trees of one document together
  int64_t depth = 4096;     // levels of one tree
};

/// What a reader has read so far.
struct TirSummary {
  int64_t documents = 0, trees = 0;
  int64_t dag_nodes = 0, tree_nodes = 0;         // as they stood there, and unfolded
  int64_t largest_tree = 0, deepest_tree = 0;    // in nodes, in levels
  std::array<int64_t, kTirTypes> node_types{};   // of the trees, by tir_type_names()
  std::map<std::string, int64_t> unknown_types;  // type keys that the trees hold as Unknown, with their number there
  std::map<std::string, int64_t> versions;       // of TVM, with the documents that it wrote
  std::array<int64_t, kCallOps> call_ops{};      // by call_op_names()
};

class TirUnfolder;

/// True for v0.8 to v0.14, whose node types and fields this reader was written for. Others are tried all the same.
bool is_known_tvm_version(std::string_view version);

/// Reads `tvm.ir.save_json` text of TVM v0.8 to v0.14 into the syntax trees that a program group consists of. A
/// document holds one tree, or one for each PrimFunc of an IRModule, in the order of its functions.
///
/// Children of a node are its expressions and statements. Left out are what binds or names (variables of loops and
/// allocations, buffers, ranges of block axes, regions) and constant loop bounds, extents and conditions, which are
/// properties of their node. Nodes of types that are not known become leaves of type Unknown.
class TirReader {
 public:
  explicit TirReader(const TirLimits& limits = {});
  ~TirReader();
  TirReader(TirReader&&) noexcept;
  TirReader& operator=(TirReader&&) noexcept;

  /// Appends the document's trees to `trees`; returns how many. Throws DataError `origin: node 12 (tir.For): found,
  /// expected` for anything that is not of this form or passes the limits; `trees` is then as it was.
  int64_t read(std::string_view text, const std::string& origin, ProgramNodes& trees);

  const TirSummary& summary() const { return summary_; }

 private:
  void count(const ProgramNodes& trees, int64_t first_tree);

  TirDocument document_;
  std::unique_ptr<TirUnfolder> unfolder_;
  TirSummary summary_;
};

}  // namespace foretime::data
