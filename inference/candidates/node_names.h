#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/frontends/hlo/hlo_file.h"

namespace foretime::inference {

/// The nodes of a graph by the names of their instructions.
class NodeNames {
 public:
  NodeNames() = default;  // no node has a name
  NodeNames(NodeNames&&) = default;
  NodeNames& operator=(NodeNames&&) = default;
  /// Of the file's only module. Throws DataError for damaged protobuf, and where the file has several modules.
  explicit NodeNames(const data::HloFile& file);

  static constexpr int32_t kNone = -1, kAmbiguous = -2;
  /// The node of this name, with or without the % of HLO's text; kNone, or kAmbiguous where several have it.
  int32_t find(std::string_view name) const;
  /// "" where a node has none.
  std::string_view of(int32_t node) const {
    return static_cast<size_t>(node) < names_.size() ? std::string_view(names_[static_cast<size_t>(node)]) : "";
  }
  bool empty() const { return nodes_.empty(); }

 private:
  std::vector<std::string> names_;                       // of each node
  std::unordered_map<std::string_view, int32_t> nodes_;  // by their names, which names_ holds
};

}  // namespace foretime::inference
