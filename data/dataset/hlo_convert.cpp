#include "data/dataset/hlo_convert.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/files/layout_npz.h"
#include "data/files/npz_writer.h"

namespace foretime::data {
namespace {

namespace fs = std::filesystem;

void write(const HloGroup& read, const fs::path& out) {
  if (read.group.kind == CandidateKind::tile)
    write_tile_npz(out, read.group, read.runtimes, read.normalizer);
  else
    write_layout_npz(out, read.group);
}

}  // namespace

void write_tile_npz(const fs::path& file, const Group& group, const std::vector<int64_t>& runtimes,
                    int64_t normalizer) {
  if (group.kind != CandidateKind::tile)
    throw DataError(fmt::format("{}: {}: not a tile group", file.string(), group.name));
  const GraphBlock& graphs = group.graphs;
  const int64_t nodes = graphs.nodes(), edges = graphs.edges();
  std::vector<int64_t> edge_index;  // C order here: consumer and producer of each edge
  for (int64_t e = 0; e < edges; ++e) {
    edge_index.push_back(graphs.edge_target[e]);
    edge_index.push_back(graphs.edge_source[e]);
  }
  NpzWriter archive(file);
  archive.add("node_feat", {nodes, graphs.feature_count}, converted<float>(graphs.node_features));
  archive.add("node_opcode", {nodes}, converted<uint8_t>(graphs.node_types));
  archive.add("edge_index", {edges, 2}, edge_index);
  archive.add("config_feat", {group.candidates, kTileFeatures}, converted<float>(group.tile_features));
  archive.add("config_runtime", {group.candidates}, runtimes);
  archive.add("config_runtime_normalizers", {group.candidates}, std::vector<int64_t>(runtimes.size(), normalizer));
  archive.close();
}

void convert_hlo(const fs::path& in, const fs::path& out, const HloConvertOptions& options,
                 const std::function<void(const HloConversion&)>& done) {
  const HloFile file(in, options.message);
  const auto groups = groups_of(file);
  const bool to_folder = out.extension() != ".npz";
  if (!to_folder && groups.size() > 1)
    file.source().fail(
        fmt::format("{} groups, but {} can hold one: name a folder instead", groups.size(), out.filename().string()));
  std::error_code code;
  if (to_folder && !fs::is_directory(out) && !fs::create_directories(out, code))
    throw DataError(fmt::format("{}: cannot be made as a folder ({})", out.string(), code.message()));
  for (const auto& module : file.modules()) {
    HloConversion conversion{.name = module.name, .left_out = why_left_out(file, module), .out = {}, .what = {}};
    if (conversion.left_out.empty()) {
      conversion.out = to_folder ? out / (module.name + ".npz") : out;
      conversion.what = read_hlo_group(file, module, options.limits);
      write(conversion.what, conversion.out);
    }
    done(conversion);
  }
}

}  // namespace foretime::data
