#include "tests/support/layout_npz.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <zip.h>

#include "base/error.h"
#include "tests/support/npz_writer.h"

namespace foretime::testing {
namespace {

using namespace data;

/// The bytes of node_config_feat.npy, made as libzip asks for them.
class ExpandedLayouts {
 public:
  ExpandedLayouts(const Group& group, const CandidateCodes& codes) : group_(group), codes_(codes) {
    const int64_t configurable = group.layout.configurable();
    header_ =
        format_npy_header({NpyKind::floating, 4, false}, false, {group.candidates, configurable, kLayoutFeatures});
    candidate_bytes_ = (configurable * kLayoutFeatures) * sizeof(float);
    total_ = header_.size() + candidate_bytes_ * group.candidates;
    row_.resize(configurable * kLayoutFeatures);
    zip_error_init(&error_);
  }
  ~ExpandedLayouts() { zip_error_fini(&error_); }
  ExpandedLayouts(const ExpandedLayouts&) = delete;
  ExpandedLayouts& operator=(const ExpandedLayouts&) = delete;

  static zip_int64_t answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    auto& source = *static_cast<ExpandedLayouts*>(self);
    switch (command) {
      case ZIP_SOURCE_OPEN: source.position_ = 0; return 0;
      case ZIP_SOURCE_READ: return source.read(static_cast<char*>(data), length);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE: return 0;
      case ZIP_SOURCE_STAT: {
        auto* stat = static_cast<zip_stat_t*>(data);
        zip_stat_init(stat);
        stat->valid = ZIP_STAT_SIZE;
        stat->size = source.total_;
        return sizeof *stat;
      }
      case ZIP_SOURCE_ERROR: return zip_error_to_data(&source.error_, data, length);
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
      default: zip_error_set(&source.error_, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
  }

 private:
  zip_int64_t read(char* to, uint64_t length) {
    uint64_t done = 0;
    while (done < length && position_ < total_) {
      const char* from = header_.data() + position_;
      uint64_t available = header_.size() - std::min<uint64_t>(position_, header_.size());
      if (available == 0) {
        const uint64_t inside = position_ - header_.size(), offset = inside % candidate_bytes_;
        expand(inside / candidate_bytes_);
        from = reinterpret_cast<const char*>(row_.data()) + offset;
        available = candidate_bytes_ - offset;
      }
      const uint64_t count = std::min(available, length - done);
      std::memcpy(to + done, from, count);
      done += count;
      position_ += count;
    }
    return done;
  }

  void expand(int64_t candidate) {
    if (candidate == expanded_) return;
    expanded_ = candidate;
    const LayoutCandidates& layout = group_.layout;
    const uint8_t* const codes = codes_(candidate);
    float* out = row_.data();
    for (int64_t j = 0; j < layout.configurable(); ++j, out += kLayoutFeatures) {
      const int64_t row = layout.row_ptr[j] + codes[j];
      std::copy_n(layout.rows.data() + row * kLayoutFeatures, kLayoutFeatures, out);
    }
  }

  const Group& group_;
  const CandidateCodes& codes_;
  std::string header_;
  uint64_t candidate_bytes_ = 0, total_ = 0, position_ = 0;
  int64_t expanded_ = -1;   // candidate that row_ holds
  std::vector<float> row_;  // [configurable, 18]
  zip_error_t error_;
};

/// Returns values in the type that files have.
std::vector<int64_t> whole_numbers(const auto& values) { return {values.begin(), values.end()}; }

}  // namespace

void write_layout_npz(const std::filesystem::path& file, const Group& group) {
  write_layout_npz(file, group, [&](int64_t c) { return group.layout.codes.data() + c * group.layout.configurable(); });
}

void write_layout_npz(const std::filesystem::path& file, const Group& group, const CandidateCodes& codes) {
  if (group.kind != CandidateKind::layout) throw DataError("{}: {}: not a layout group", file.string(), group.name);
  const GraphBlock& graphs = group.graphs;
  const int64_t nodes = graphs.nodes(), edges = graphs.edges();
  auto edge_index = whole_numbers(graphs.edge_target);  // Fortran order: all consumers, then all producers
  edge_index.insert(edge_index.end(), graphs.edge_source.begin(), graphs.edge_source.end());
  auto splits = whole_numbers(group.node_splits);
  if (splits.empty()) splits = {0, nodes};
  std::vector<int64_t> runtimes;
  for (const double runtime : group.runtimes) runtimes.push_back(std::llround(runtime));

  ExpandedLayouts layouts(group, codes);
  NpzWriter archive(file, NpzCompression::fast);  // the entries are large and repeat themselves
  archive.add("edge_index", {edges, 2}, edge_index, /*fortran_order=*/true);
  archive.add("node_feat", {nodes, graphs.feature_count}, graphs.node_features.span());
  archive.add("node_opcode", {nodes}, graphs.node_types.span());
  archive.add_source("node_config_feat.npy", zip_source_function(archive.archive(), ExpandedLayouts::answer, &layouts));
  archive.add("node_config_ids", {group.layout.configurable()}, whole_numbers(group.layout.nodes));
  archive.add("node_splits", {1, std::ssize(splits)}, splits);
  archive.add("config_runtime", {group.candidates}, runtimes);
  archive.close();
}

}  // namespace foretime::testing
