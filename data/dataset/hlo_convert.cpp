#include "data/dataset/hlo_convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>

#include <fmt/format.h>
#include <zip.h>

#include "base/error.h"
#include "data/files/npy.h"

namespace foretime::data {
namespace {

constexpr zip_uint32_t kFastDeflate = 1;      // the entries are large and repeat themselves
constexpr zip_uint16_t kFirstZipDate = 0x21;  // 1980-01-01: equal groups give equal files

/// The bytes of node_config_feat.npy, made as libzip asks for them.
class ExpandedLayouts {
 public:
  ExpandedLayouts(const Group& group, const CandidateCodes& codes) : group_(group), codes_(codes) {
    const int64_t configurable = group.layout.configurable();
    header_ =
        format_npy_header({NpyKind::floating, 4, false}, false, {group.candidates, configurable, kLayoutFeatures});
    candidate_bytes_ = static_cast<uint64_t>(configurable * kLayoutFeatures) * sizeof(float);
    total_ = header_.size() + candidate_bytes_ * static_cast<uint64_t>(group.candidates);
    row_.resize(static_cast<size_t>(configurable * kLayoutFeatures));
    zip_error_init(&error_);
  }
  ~ExpandedLayouts() { zip_error_fini(&error_); }
  ExpandedLayouts(const ExpandedLayouts&) = delete;
  ExpandedLayouts& operator=(const ExpandedLayouts&) = delete;

  static zip_int64_t answer(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    auto& source = *static_cast<ExpandedLayouts*>(self);
    switch (command) {
      case ZIP_SOURCE_OPEN:
        source.position_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return source.read(static_cast<char*>(data), length);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      case ZIP_SOURCE_STAT: {
        auto* stat = static_cast<zip_stat_t*>(data);
        zip_stat_init(stat);
        stat->valid = ZIP_STAT_SIZE;
        stat->size = source.total_;
        return sizeof *stat;
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&source.error_, data, length);
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
      default:
        zip_error_set(&source.error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
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
        expand(static_cast<int64_t>(inside / candidate_bytes_));
        from = reinterpret_cast<const char*>(row_.data()) + offset;
        available = candidate_bytes_ - offset;
      }
      const uint64_t count = std::min(available, length - done);
      std::memcpy(to + done, from, count);
      done += count;
      position_ += count;
    }
    return static_cast<zip_int64_t>(done);
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

struct ArchiveDiscarder {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

class LayoutArchive {
 public:
  explicit LayoutArchive(const std::filesystem::path& file) : file_(file.string()) {
    int code = 0;
    archive_.reset(zip_open(file_.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
    if (!archive_) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      const std::string why = zip_error_strerror(&error);
      zip_error_fini(&error);
      throw DataError("{}: cannot be written: {}", file_, why);
    }
  }

  template <class T>
  void add(const char* name, NpyKind kind, bool fortran_order, const std::vector<int64_t>& shape,
           const std::vector<T>& values) {
    std::string& bytes = entries_.emplace_back(format_npy_header({kind, sizeof(T), false}, fortran_order, shape));
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    add_source(name, zip_source_buffer(archive_.get(), bytes.data(), bytes.size(), 0));
  }
  void add(const char* name, ExpandedLayouts& layouts) {
    add_source(name, zip_source_function(archive_.get(), ExpandedLayouts::answer, &layouts));
  }
  void close() {
    if (zip_close(archive_.get()) != 0)
      throw DataError("{}: cannot be written: {}", file_, zip_strerror(archive_.get()));
    archive_.release();  // NOLINT: zip_close has freed it
  }

 private:
  void add_source(const char* name, zip_source_t* source) {
    const std::string entry = std::string(name) + ".npy";
    const zip_int64_t index =
        source == nullptr ? -1 : zip_file_add(archive_.get(), entry.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      if (source != nullptr) zip_source_free(source);
      throw DataError("{}: {}: cannot be added: {}", file_, entry, zip_strerror(archive_.get()));
    }
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive_.get(), at, ZIP_CM_DEFLATE, kFastDeflate);
    zip_file_set_dostime(archive_.get(), at, 0, kFirstZipDate, 0);
  }

  std::string file_;
  std::deque<std::string> entries_;  // libzip reads them in close()
  std::unique_ptr<zip_t, ArchiveDiscarder> archive_;
};

}  // namespace

void write_layout_npz(const std::filesystem::path& file, const Group& group) {
  write_layout_npz(file, group, [&](int64_t c) { return group.layout.codes.data() + c * group.layout.configurable(); });
}

void write_layout_npz(const std::filesystem::path& file, const Group& group, const CandidateCodes& codes) {
  if (group.kind != CandidateKind::layout) throw DataError("{}: {}: not a layout group", file.string(), group.name);
  const GraphBlock& graphs = group.graphs;
  const int64_t nodes = graphs.nodes(), edges = graphs.edges();
  auto edge_index = converted<int64_t>(graphs.edge_target);  // Fortran order: all consumers, then all producers
  edge_index.insert(edge_index.end(), graphs.edge_source.begin(), graphs.edge_source.end());
  auto splits = converted<int64_t>(group.node_splits);
  if (splits.empty()) splits = {0, nodes};
  std::vector<int64_t> runtimes;
  for (const double runtime : group.runtimes) runtimes.push_back(std::llround(runtime));

  ExpandedLayouts layouts(group, codes);
  LayoutArchive archive(file);
  archive.add("edge_index", NpyKind::signed_integer, true, {edges, 2}, edge_index);
  archive.add("node_feat", NpyKind::floating, false, {nodes, graphs.feature_count},
              converted<float>(graphs.node_features));
  archive.add("node_opcode", NpyKind::unsigned_integer, false, {nodes}, converted<uint8_t>(graphs.node_types));
  archive.add("node_config_feat", layouts);
  archive.add("node_config_ids", NpyKind::signed_integer, false, {group.layout.configurable()},
              converted<int64_t>(group.layout.nodes));
  archive.add("node_splits", NpyKind::signed_integer, false, {1, static_cast<int64_t>(splits.size())}, splits);
  archive.add("config_runtime", NpyKind::signed_integer, false, {group.candidates}, runtimes);
  archive.close();
}

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
  if (group.kind != CandidateKind::tile) throw DataError("{}: {}: not a tile group", file.string(), group.name);
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
    throw DataError("{}: cannot be made as a folder ({})", out.string(), code.message());
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
