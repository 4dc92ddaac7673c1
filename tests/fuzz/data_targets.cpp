#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>
#include <zlib.h>

#include "base/checksum.h"
#include "base/error.h"
#include "configs/settings.h"
#include "data/dataset/group_files.h"
#include "data/dataset/records/record_pack.h"
#include "data/dataset/table_pack.h"
#include "data/files/file_form.h"
#include "data/files/packed.h"
#include "data/files/packed_file.h"
#include "data/frontends/ansor/records/record_reader.h"
#include "data/frontends/loops/loop_graph.h"
#include "data/frontends/tir/tir_file.h"
#include "plans/plan_source.h"
#include "tests/data/groups.h"
#include "tests/fuzz/targets.h"

namespace foretime::fuzz {
namespace {

namespace fs = std::filesystem;
namespace packed = data::packed;
using data::CandidateKind;

constexpr CandidateKind kKinds[] = {CandidateKind::layout, CandidateKind::tile, CandidateKind::program};

/// A folder of this process in memory, for what can only be read from files.
const fs::path& folder() {
  static const fs::path path = [] {
    const fs::path base = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    auto own = base / ("foretime-fuzz-" + std::to_string(getpid()));
    fs::create_directories(own);
    std::atexit([] { fs::remove_all(folder()); });
    return own;
  }();
  return path;
}

fs::path write(const char* name, std::string_view bytes) {
  auto file = folder() / name;
  std::ofstream(file, std::ios::binary) << bytes;
  return file;
}

/// Calls that may refuse what they are given, with a message.
template <class Call>
bool done(const Call& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    require(std::strlen(error.what()) > 0, "a refusal has a message", "");
    require(error.exit_code() == kData || error.exit_code() == kUsage, "data from outside are no reason for this",
            error.what());
    return false;
  }
}

plans::PlanRequest request_for(CandidateKind kind) {
  return {.layers = 2,
          .relations = {{}},
          .sharing = kind == CandidateKind::layout ? plans::Sharing::states : plans::Sharing::none};
}

/// What training does with a group: its candidates, states and plans.
void use(const data::Group& group) {
  constexpr int64_t kMostNodes = 2000, kMostCandidates = 100;
  if (group.graphs.nodes() > kMostNodes || group.candidates > kMostCandidates) return;
  std::vector<int64_t> all;
  for (int64_t c = 0; c < group.candidates; ++c) all.push_back(c);
  data::configuration_hashes(group);
  data::distinct_candidates(group, all);
  done([&] {
    const auto request = request_for(group.kind);
    plans::for_each_plan(group, plans::make_plan_source(group, request), all, 1000, [](const plans::MessagePlan&) {});
  });
}

std::string sample_collection(CandidateKind kind) {
  const auto file = folder() / "sample.foretime";
  data::PackedWriter writer(file, "a note");
  for (uint32_t i = 0; i < 2; ++i) writer.add(testing::make_group(kind, "group " + std::to_string(i), i));
  writer.finish();
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A file's structs and arrays, wherever they lie in it; nothing where they lie outside.
class Bytes {
 public:
  explicit Bytes(std::string& bytes) : bytes_(bytes) {}
  template <class T>
  T get(uint64_t offset) const {
    T value{};
    if (offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset)
      std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  template <class T>
  void put(uint64_t offset, const T& value) {
    if (offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset)
      std::memcpy(bytes_.data() + offset, &value, sizeof(T));
  }
  uint64_t checksum_of_range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return 0;
    return checksum_of(std::span(bytes_.data() + offset, size));
  }
  std::string& text() { return bytes_; }

 private:
  std::string& bytes_;
};

uint64_t record_offset(const packed::Preamble& preamble, size_t record) {
  return preamble.directory_offset + record * sizeof(packed::GroupRecord);
}

void edit_collection(Bytes& file, Choices& choices) {
  auto preamble = file.get<packed::Preamble>(0);
  const auto at = record_offset(preamble, choices.below(2));
  auto record = file.get<packed::GroupRecord>(at);
  const auto value = [&] { return choices.number(); };
  switch (choices.below(8)) {
    case 0:  // any word of the preamble
      file.put(8 * choices.below(8), value());
      return;
    case 1: {  // any word of a record
      file.put(at + 8 * choices.below(sizeof(packed::GroupRecord) / 8), value());
      return;
    }
    case 2: {  // where a section is, or how long
      auto& section = record.sections.at(choices.below(packed::kSectionCount));
      const auto wanted = choices.flag() ? static_cast<uint64_t>(value()) : section.bytes + choices.below(17) * 4 - 32;
      (choices.flag() ? section.offset : section.bytes) = wanted;
      file.put(at, record);
      return;
    }
    case 3:
    case 6:
    case 7: {  // a value in a section
      const auto& section = record.sections.at(choices.below(packed::kSectionCount));
      if (section.bytes == 0) return;
      const size_t width = size_t{1} << choices.below(4);
      const uint64_t place = section.offset + choices.below(std::min<uint64_t>(section.bytes, 65535)) / width * width;
      const int64_t written = value();
      for (size_t i = 0; i < width; ++i) file.put(place + i, static_cast<char>(written >> (8 * i)));
      return;
    }
    case 4: {  // a size
      auto& sizes = record.sizes;
      int64_t* const all[] = {&sizes.candidates,   &sizes.graphs,        &sizes.nodes,          &sizes.edges,
                              &sizes.configurable, &sizes.feature_count, &sizes.node_type_count};
      int64_t& chosen = *choices.of(all);
      const auto near = static_cast<uint64_t>(chosen) + choices.below(5) - 2;
      chosen = choices.flag() ? value() : static_cast<int64_t>(near);
      file.put(at, record);
      return;
    }
    default:  // cut, or longer
      file.text().resize(std::min<size_t>(file.text().size() + 64, file.text().size() + 32 - choices.below(64)));
  }
}

/// As the writer would have written it, so that what is behind the checksums is read.
void mend_checksums(Bytes& file) {
  auto preamble = file.get<packed::Preamble>(0);
  for (size_t r = 0; r < 2; ++r) {
    const auto at = record_offset(preamble, r);
    auto record = file.get<packed::GroupRecord>(at);
    for (auto& section : record.sections)
      if (section.bytes > 0) section.checksum = file.checksum_of_range(section.offset, section.bytes);
    record.name_checksum = file.checksum_of_range(preamble.directory_offset + record.name_offset, record.name_bytes);
    record.checksum = packed::own_checksum(record);
    file.put(at, record);
  }
  preamble.directory_checksum = file.checksum_of_range(preamble.directory_offset, preamble.directory_bytes);
  preamble.checksum = packed::own_checksum(preamble);
  file.put(0, preamble);
}

/// A member of an .npz: its name, the text of its NPY header, its values.
struct Member {
  std::string name, type;
  std::vector<int64_t> shape;
  std::string values;
  bool fortran = false;
};

template <class T>
Member member(std::string name, std::string type, std::vector<int64_t> shape, const std::vector<T>& values,
              bool fortran = false) {
  return {std::move(name),
          std::move(type),
          std::move(shape),
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)},
          fortran};
}

Member texts(std::string name, const std::vector<std::string>& words) {
  constexpr size_t kLetters = 8;
  std::vector<char32_t> letters;
  for (const auto& word : words)
    for (size_t i = 0; i < kLetters; ++i) letters.push_back(i < word.size() ? static_cast<char32_t>(word[i]) : U'\0');
  return member(std::move(name), "<U8", {static_cast<int64_t>(words.size())}, letters);
}

std::vector<Member> sample_members(CandidateKind kind) {
  if (kind == CandidateKind::program) {
    return {member<int64_t>("graph_ptr", "<i8", {3}, {0, 3, 4}),
            texts("type_names", {"For", "PrimFunc", "Var", "NewType"}),
            member<uint8_t>("node_type", "|u1", {4}, {1, 0, 2, 3}),
            member<int32_t>("parent", "<i4", {4}, {-1, 0, 1, -1}),
            member<int64_t>("extent", "<i8", {4}, {0, 7, 0, 0}),
            member<int8_t>("loop_kind", "|i1", {4}, {-1, 2, -1, -1}),
            member<double>("value", "<f8", {4}, {0.5, 1, 2, 3}),
            member<int16_t>("variable", "<i2", {4}, {-1, 4, 4, -1}),
            member<int16_t>("buffer", "<i2", {4}, {-1, -1, -1, -1}),
            member<int64_t>("buffer_elements", "<i8", {4}, {0, 0, 0, 0}),
            member<uint8_t>("call_op", "|u1", {4}, {0, 0, 0, 0}),
            texts("call_op_names", {""}),
            member<double>("runtime", "<f8", {2}, {0.5, 0.25}),
            texts("id", {"a", "b"})};
  }
  std::vector<Member> all = {member("node_feat", "<f4", {3, 140}, std::vector<float>(420, 1.5F)),
                             member<uint8_t>("node_opcode", "|u1", {3}, {1, 2, 107}),
                             member<int64_t>("edge_index", "<i8", {2, 2}, {1, 2, 0, 1}, true)};
  if (kind == CandidateKind::layout) {
    all.push_back(member("node_config_feat", "<f4", {2, 2, 18}, std::vector<float>(72, -1.0F)));
    all.push_back(member<int64_t>("node_config_ids", "<i8", {2}, {0, 2}));
    all.push_back(member<int64_t>("node_splits", "<i8", {1, 2}, {0, 3}));
    all.push_back(member<int64_t>("config_runtime", "<i8", {2}, {5, 7'000'000'000}));
  } else {
    all.push_back(member("config_feat", "<f4", {2, 24}, std::vector<float>(48, 2.0F)));
    all.push_back(member<int64_t>("config_runtime", "<i8", {2}, {3, 4}));
    all.push_back(member<int64_t>("config_runtime_normalizers", "<i8", {2}, {2, 8}));
  }
  return all;
}

void edit_members(std::vector<Member>& members, Choices& choices) {
  constexpr const char* kTypes[] = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4",
                                    "<f8", ">f4", ">i8", "<U1", "<U8", "<U0", "<f2", "|O",  "|S4", "<c8"};
  if (members.empty()) return;
  auto& chosen = choices.of(members);
  switch (choices.below(9)) {
    case 0: chosen.type = choices.of(kTypes); return;
    case 1:
      if (!chosen.shape.empty()) choices.of(chosen.shape) = choices.number();
      return;
    case 2: {  // a dimension longer or shorter, with values for it
      if (chosen.shape.empty()) return;
      const auto near = static_cast<uint64_t>(chosen.shape.front()) + choices.below(5) - 2;
      chosen.shape.front() = std::max<int64_t>(0, static_cast<int64_t>(near));
      chosen.values.resize(chosen.values.size() + chosen.values.size() % 97 + choices.below(64));
      return;
    }
    case 3: chosen.shape.push_back(static_cast<int64_t>(choices.below(3))); return;
    case 4: chosen.fortran = !chosen.fortran; return;
    case 5: members.erase(members.begin() + static_cast<std::ptrdiff_t>(choices.below(members.size()))); return;
    case 6: chosen.name = choices.flag() ? choices.of(members).name : std::string(choices.take(4)); return;
    default: {  // a value
      const size_t width = size_t{1} << choices.below(4);
      if (chosen.values.size() < width) return;
      const size_t place = choices.below(std::min<size_t>(chosen.values.size() / width, 65535)) * width;
      const int64_t written = choices.number();
      std::memcpy(chosen.values.data() + place, &written, width);
    }
  }
}

std::string npy_of(const Member& member, bool cut) {
  std::string shape;
  for (const int64_t size : member.shape) shape += std::to_string(size) + ", ";
  std::string header = "{'descr': '" + member.type + "', 'fortran_order': " + (member.fortran ? "True" : "False") +
                       ", 'shape': (" + shape + "), }";
  header += std::string((64 - (header.size() + 11) % 64) % 64, ' ') + "\n";
  std::string bytes = "\x93NUMPY";
  bytes += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  bytes += header + member.values;
  return cut ? bytes.substr(0, bytes.size() / 2) : bytes;
}

template <class T>
void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string deflated(const std::string& content) {
  z_stream stream{};
  require(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib has memory", "");
  std::string result(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib compresses", "");
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// How the entries of an archive lie in it.
struct Layout {
  bool cut = false;     // the last one is half of what it was
  size_t deflated = 0;  // a bit for each entry; else they are stored
  size_t damaged = 0;   // the entry whose packed bytes change, counted from 1
  size_t at = 0;        // where
  int64_t claimed = 0;  // added to its inflated size
};

/// A zip archive (APPNOTE.TXT 4.3).
std::string zip_of(const std::vector<Member>& members, const Layout& layout) {
  std::string archive, directory;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto content = npy_of(members[i], layout.cut && i + 1 == members.size());
    const auto name = members[i].name + ".npy";
    const bool small = (layout.deflated >> i % 16 & 1) != 0;
    auto packed = small ? deflated(content) : content;
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    if (layout.damaged == i + 1 && !packed.empty()) packed[layout.at % packed.size()] ^= 0x10;
    const auto offset = static_cast<uint32_t>(archive.size());
    std::string common;  // of a local header and of the directory
    append<uint16_t>(common, 20);
    append<uint16_t>(common, 0);  // flags
    append<uint16_t>(common, small ? 8 : 0);
    append<uint32_t>(common, 0x21 << 16);
    append(common, crc);
    append(common, static_cast<uint32_t>(packed.size()));
    append(common, static_cast<uint32_t>(content.size() + (layout.damaged == i + 1 ? layout.claimed : 0)));
    append(common, static_cast<uint16_t>(name.size()));
    append<uint16_t>(common, 0);
    archive += "PK\3\4" + common + name + packed;
    directory += "PK\1\2";
    append<uint16_t>(directory, 20);
    directory += common;
    directory += std::string(10, '\0');
    append(directory, offset);
    directory += name;
  }
  const auto start = static_cast<uint32_t>(archive.size());
  archive += directory + "PK\5\6" + std::string(4, '\0');
  for (int i = 0; i < 2; ++i) append(archive, static_cast<uint16_t>(members.size()));
  append(archive, static_cast<uint32_t>(directory.size()));
  append(archive, start);
  append<uint16_t>(archive, 0);
  return archive;
}

}  // namespace

void run_packed(std::string_view bytes) {
  static const std::array samples = {sample_collection(kKinds[0]), sample_collection(kKinds[1]),
                                     sample_collection(kKinds[2])};
  Choices choices(bytes);
  auto content = choices.of(samples);
  const bool raw = choices.below(8) == 0;
  if (raw) {
    const auto text = choices.take(bytes.size());
    if (text.size() < content.size()) content.replace(content.size() - text.size(), text.size(), text);
  } else {
    Bytes file(content);
    constexpr int kMostEdits = 12;
    for (int i = 0; i < kMostEdits && !choices.done(); ++i) edit_collection(file, choices);
    mend_checksums(file);
  }
  const auto path = write("packed.foretime", content);
  std::vector<data::GroupHeader> headers;
  if (!done([&] { headers = data::packed_headers(path); })) return;
  done([&] { data::verify_packed(path); });
  for (const auto& header : headers) {
    done([&] { data::load_packed_summary(header); });
    done([&] { data::packed_note(header); });
    done([&] { use(data::load_packed(header)); });
  }
}

void run_npz(std::string_view bytes) {
  Choices choices(bytes);
  const auto kind = choices.of(kKinds);
  const size_t how = choices.below(8);
  Layout layout{.cut = how == 1};
  if (how > 4) layout.deflated = choices.below(65536);
  if (how == 7) {
    layout.damaged = choices.below(16);
    layout.at = choices.below(65536);
    layout.claimed = choices.below(4) == 0 ? choices.number() : 0;
  }
  std::string content;
  if (how == 0) {
    content = zip_of(sample_members(kind), layout);
    const auto text = choices.take(bytes.size());
    const size_t at = text.empty() ? 0 : text.size() * 31 % content.size();
    content.replace(at, text.size(), text);
  } else {
    auto members = sample_members(kind);
    constexpr int kMostEdits = 12;
    for (int i = 0; i < kMostEdits && !choices.done(); ++i) edit_members(members, choices);
    content = zip_of(members, layout);
  }
  const auto path = write("graph.npz", content);
  configs::DataSettings settings;
  settings.format = configs::DataFormat::programs;
  settings.representation = how % 2 == 0 ? configs::Representation::ast : configs::Representation::loops;
  std::vector<data::GroupHeader> headers;
  if (!done([&] { headers = data::list_groups({path.string()}, folder(), kind, {}, data::make_featurizer(settings)); }))
    return;
  for (const auto& header : headers) done([&] { use(data::load_group(header)); });
}

void run_files(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto content = bytes.substr(1);
  configs::DataSettings settings;
  settings.format = configs::DataFormat::programs;
  settings.representation = configs::Representation::loops;
  static const auto featurizer = data::make_featurizer(settings);
  switch ((bytes.front() - '0') % 6) {
    case 0:
    case 1: {  // tunings of XLA modules
      const auto kind = bytes.front() == '0' ? CandidateKind::layout : CandidateKind::tile;
      const auto path = write("module.pb", content);
      std::vector<data::GroupHeader> headers;
      if (!done([&] { headers = data::list_groups({path.string()}, folder(), kind); })) return;
      for (const auto& header : headers) {
        done([&] { data::load_summary(header); });
        done([&] { use(data::load_group(header)); });
      }
      return;
    }
    case 2: {  // records of save_json text
      const auto path = write("programs.jsonl", content);
      data::form_of(path);
      for (const data::Featurizer* const graphs : {static_cast<const data::Featurizer*>(nullptr), featurizer.get()}) {
        done([&] {
          for (const auto& group : data::read_tir_groups({path}, "", {}, graphs)) use(group);
        });
      }
      done([&] { require(!to_json(data::inspect_tir(path)).empty(), "a report is text", ""); });
      return;
    }
    case 3: {  // compute DAGs, an empty line, tuning records
      const size_t end = std::min(content.find("\n\n"), content.size());
      const auto dags = write("dags.jsonl", content.substr(0, end)),
                 records = write("records.json", content.substr(end));
      done([&] {
        const data::DagTable table(dags);
        const auto index = data::index_records({records}, table, {.least = 1});
        data::headers_of(index, settings.representation);
      });
      done([&] {
        data::RecordReader reader(records);
        data::TuningRecord record;
        while (reader.next_with_failed(record)) {
          record.mean_cost();
          data::schedule_hash(record.schedule);
        }
        const auto& counts = reader.counts();
        require(counts.lines >= counts.records + counts.malformed, "lines are records or malformed or skipped", "");
        for (const auto& malformed : counts.first_malformed)
          require(!malformed.reason.empty() && malformed.line > 0, "a malformed line has a reason", "");
      });
      return;
    }
    case 5: {
      const data::TablePackRequest request{.out = folder() / "table.foretime",
                                           .in = {write("table.csv", content)},
                                           .group = {"m"},
                                           .skipped_columns = {},
                                           .failed = {},
                                           .like = {}};
      done([&] {
        if (data::pack_table(request).groups == 0) return;
        for (const auto& header : data::list_groups({request.out.string()}, folder(), CandidateKind::tile))
          use(data::load_group(header));
      });
      return;
    }
    default: done([&] { data::read_eval_indices(write("indices.json", content)); });
  }
}

}  // namespace foretime::fuzz
