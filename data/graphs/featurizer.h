#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/graphs/group.h"
#include "data/graphs/program_nodes.h"

namespace foretime::data {

/// How tensor programs become graphs: what data.representation chooses. Syntax trees as they are need none of these.
class Featurizer {
 public:
  virtual ~Featurizer() = default;
  virtual std::string name() const = 0;
  virtual int64_t feature_count() const = 0;
  /// One graph for each tree. `operations`: arithmetic operations of each program, or empty where they are unknown.
  /// Throws DataError.
  virtual GraphBlock graphs(ProgramNodes trees, std::span<const double> operations) const = 0;
};
using FeaturizerPtr = std::shared_ptr<const Featurizer>;

}  // namespace foretime::data
