#pragma once

#include <string>

#include "data/files/npz_reader.h"
#include "data/graphs/group.h"

namespace foretime::bench {

/// What the candidates of an .npz are, by its entries.
inline data::CandidateKind kind_of(const std::string& file) {
  const data::NpzReader reader(file);
  if (reader.has("node_config_feat")) return data::CandidateKind::layout;
  return reader.has("config_feat") ? data::CandidateKind::tile : data::CandidateKind::program;
}

}  // namespace foretime::bench
