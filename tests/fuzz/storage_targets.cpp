#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/files.h"
#include "base/hex_digest.h"
#include "base/text.h"
#include "coordinator/checkpoint_store.h"
#include "data/files/line_source.h"
#include "jobs/artifacts/transfer.h"
#include "jobs/queue/artifact.h"
#include "jobs/queue/job.h"
#include "tests/fuzz/targets.h"
#include "tests/simulation/simulated_files.h"

namespace foretime::fuzz {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using coordinator::CheckpointStore;
using jobs::ArtifactStore;

/// Files in memory, for as long as this lives.
struct Disk {
  simulation::SimulatedFiles all;
  FilesScope scope{all};
  void put(const fs::path& file, std::string_view bytes) const {
    files().create_folders(file.parent_path());
    files().open(file, Files::Open::replace)->write(bytes);
  }
};

/// What is stored may be damaged: that is bad data, never the storage's fault.
template <class Call>
bool stored(const Call& call, std::initializer_list<int> reasons = {kData}) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    require(std::strlen(error.what()) > 0, "a refusal has a message", "");
    const bool expected = std::find(reasons.begin(), reasons.end(), error.exit_code()) != reasons.end();
    require(expected, "damaged data are no reason for this", error.what());
    return false;
  }
}

constexpr const char* kStoredNames[] = {
    "a.bin", "state.json", "manifest.json", "step-00000010", "checkpoints", "..",        ".",
    "",      "../x",       "a/b",           "config.yaml",   "a.bin/x",     "bytes",     "crc32",
    "files", "step",       "sha256",        "path",          "store",       "best.json", "metrics.jsonl"};

Json odd_value(Choices& choices) {
  switch (choices.below(10)) {
    case 0: return nullptr;
    case 1: return choices.number();
    case 2: return static_cast<uint64_t>(choices.number());
    case 3: return choices.flag() ? 1e300 : -0.5;
    case 4: return Json::array();
    case 5: return Json::object();
    case 6: return choices.flag();
    case 7: return std::string(64, 'a');
    case 8: return choices.of(kStoredNames);
    default: return printable(std::string(choices.take(choices.below(40))));
  }
}

/// Changes something somewhere in a document.
void edit_json(Json& json, Choices& choices) {
  Json* at = &json;
  while (at->is_structured() && !at->empty() && choices.below(4) != 0) {
    auto inner = at->begin();
    std::advance(inner, static_cast<std::ptrdiff_t>(choices.below(at->size())));
    at = &*inner;
  }
  if (!at->is_object() || choices.below(3) == 0) {
    *at = odd_value(choices);
  } else if (choices.flag() || at->empty()) {
    (*at)[choices.of(kStoredNames)] = odd_value(choices);
  } else {  // under another name
    auto inner = at->begin();
    std::advance(inner, static_cast<std::ptrdiff_t>(choices.below(at->size())));
    const Json value = *inner;
    at->erase(inner);
    if (choices.flag()) (*at)[choices.of(kStoredNames)] = value;
  }
}

std::string edited(Json json, Choices& choices) {
  if (choices.below(8) == 0) return std::string(choices.take(choices.below(300)));
  for (size_t i = choices.below(4); i > 0; --i) edit_json(json, choices);
  auto text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (choices.below(16) == 0) text.resize(choices.below(text.size() + 1));
  return text;
}

/// Holds what the bytes say, which need not be what was stored.
class MadeUpStore final : public ArtifactStore {
 public:
  MadeUpStore(Choices& choices, const std::map<std::string, std::string>& intact)
      : choices_(choices), intact_(intact) {}
  std::string address() const override { return "folder:/made/up"; }
  uint64_t largest_file() const override { return 1 << 20; }
  void put(const std::string&, const std::string&) override {}
  std::optional<std::string> get(const std::string& name, uint64_t bytes) override {
    require(bytes <= largest_file(), "nothing larger than the store takes is asked for", name.c_str());
    for (const auto& [file, content] : intact_) {
      if (!name.ends_with("/" + file)) continue;
      switch (choices_.below(12)) {
        case 0: return std::nullopt;
        case 1: return content + "x";
        case 2: return std::string(content.size(), 'x');
        case 3: throw jobs::StoreUnavailable("away");
        default: return content;
      }
    }
    return choices_.flag() ? std::optional(std::string(choices_.below(64), 'y')) : std::nullopt;
  }
  std::vector<std::string> list(const std::string&) override { return {}; }
  void remove(const std::string&) override {}

 private:
  Choices& choices_;
  const std::map<std::string, std::string>& intact_;
};

Json manifest_of(int64_t step, const std::map<std::string, std::string>& contents) {
  Json manifest = {{"format", 1}, {"step", step}, {"files", Json::object()}};
  for (const auto& [name, bytes] : contents) {
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    manifest["files"][name] = {{"bytes", bytes.size()}, {"crc32", crc}};
  }
  return manifest;
}

}  // namespace

void run_checkpoints(std::string_view bytes) {
  Choices choices(bytes);
  const Disk disk;
  const fs::path run = "/data/run", root = run / "checkpoints";
  files().create_folders(root);
  disk.put(run / "a.bin", "not of a checkpoint");
  std::map<int64_t, std::map<std::string, std::string>> written;
  for (const int64_t step : {10, 20, 30}) {
    if (choices.below(8) == 0) continue;
    auto& contents = written[step];
    contents = {{"a.bin", "weights of " + std::to_string(step)}, {"state.json", "{}"}};
    const auto folder = CheckpointStore(root).folder(step);
    files().create_folders(folder);
    for (const auto& [name, content] : contents)
      if (choices.below(12) != 0) disk.put(folder / name, choices.below(12) == 0 ? "damaged" : content);
    if (choices.below(12) == 0) {
      files().remove(folder / "a.bin");
      files().create_folders(folder / "a.bin");
    }
    if (choices.below(12) != 0) disk.put(folder / "manifest.json", edited(manifest_of(step, contents), choices));
  }
  if (choices.flag())
    disk.put(root / "best.json", edited({{"step", 20}, {"metric", "valid/opa"}, {"value", 0.5}}, choices));
  if (choices.flag()) disk.put(run / "metrics.jsonl", edited({{"kind", "eval"}, {"step", 20}}, choices) + "\n{\n");
  if (choices.flag()) disk.put(run / "config.yaml", choices.take(20));

  const CheckpointStore store(root);
  int told = 0;
  const auto warn = [&](const std::string& what) {
    require(!what.empty(), "a warning says what is wrong", "");
    ++told;
  };
  const auto check = [&](const coordinator::StoredCheckpoint& read) {
    require(store.folder(read.step) == read.folder, "a checkpoint is of the step that its folder says",
            read.folder.c_str());
    for (const auto& [name, content] : read.files) {
      require(files().exists(read.folder / name), "what is read lies in its folder", name.c_str());
      require(content != "not of a checkpoint" && name.find('/') == std::string::npos, "nothing else is read",
              name.c_str());
    }
  };
  stored([&] { store.best_step(); });
  jobs::best_step_of(run);
  for (const int64_t step : store.steps()) {
    stored([&] { check(store.read(step)); });
    stored([&] { check(store.read_intact(step, warn)); });
    stored(
        [&] {
          const auto packed = jobs::pack_checkpoint(run, store.folder(step).lexically_relative(run).string());
          for (const auto& [name, file] : packed.artifact.files)
            require(packed.contents.at(name).size() == file.bytes, "an artifact says what it holds", name.c_str());
        },
        {kData, kUsage});
  }
  stored([&] { check(coordinator::read_intact_checkpoint(run, warn)); });
  stored([&] { CheckpointStore(root).prune(1, true); });
  require(files().exists(run / "a.bin"), "pruning removes checkpoints alone", "");
}

void run_artifacts(std::string_view bytes) {
  Choices choices(bytes);
  const std::map<std::string, std::string> intact = {{"checkpoints/step-00000010/a.bin", "weights"},
                                                     {"checkpoints/step-00000010/manifest.json", "{}"},
                                                     {"checkpoints/best.json", R"({"step": 10})"},
                                                     {"config.yaml", "run: {}\n"},
                                                     {"metrics.jsonl", ""}};
  Json record = {
      {"store", "folder:/made/up"}, {"path", "checkpoints/step-00000010"}, {"step", 10}, {"files", Json::object()}};
  for (const auto& [name, content] : intact)
    record["files"][name] = {{"bytes", content.size()}, {"sha256", hex_digest("SHA256", content)}};
  std::map<std::string, std::string> fields;
  for (const auto* role : jobs::kArtifactRoles) {
    if (choices.below(4) == 0) continue;
    const std::string name = choices.below(8) == 0 ? choices.of(kStoredNames) : std::string("3-1f/") + role;
    fields[role] = name;
    if (choices.below(8) != 0) fields["of:" + name] = edited(record, choices);
  }
  if (choices.below(4) == 0) fields["trouble"] = std::string(choices.take(choices.below(20)));
  const auto known = jobs::artifacts_of(fields);
  for (const auto& [role, artifact] : known.by_role) {
    require(jobs::parse_artifact(artifact.name, jobs::artifact_text(artifact)) == artifact,
            "a record is the same when it is written again", role.c_str());
  }

  jobs::ArtifactStores stores([]() -> std::unique_ptr<jobs::RedisClient> { throw jobs::RedisUnavailable("none"); },
                              "foretime");
  stores.restrict_to("folder:/made/up");
  stores.add(std::make_unique<MadeUpStore>(choices, intact));
  const Disk disk;
  const fs::path into = "/data/into";
  disk.put("/data/a.bin", "others'");
  stored(
      [&] {
        const auto want = choices.flag() ? jobs::Want::resume : jobs::Want::result;
        const auto fetched = jobs::fetch_artifact(stores, "0123456789abcdef", known, want, into);
        require(fetched.found() == files().exists(into), "nothing is left where nothing is found",
                fetched.path.c_str());
        require(!fetched.found() || files().exists(fetched.path), "what was found is there", fetched.path.c_str());
        require(fetched.found() || fields.empty() || !fetched.notes.empty() || !known.by_role.contains("last"),
                "what is not found is told", "");
      },
      {kComm});  // the store is away; a damaged record or file is passed over
  for (const auto& [name, content] : disk.all.contents()) {
    if (name == "/data/a.bin") continue;
    require(name.starts_with("/data/into/"), "records write nothing elsewhere", name.c_str());
    const auto file = intact.find(name.substr(11));
    require(file == intact.end() || file->second == content, "what is written is what was stored", name.c_str());
  }
}

void run_lines(std::string_view bytes) {
  Choices choices(bytes);
  const bool gzip = choices.below(4) != 0, right = choices.below(3) != 0;
  const size_t members = choices.below(3) + 1, longest = size_t{1} << (4 + choices.below(8));
  std::string text, content;
  for (size_t m = 0; m < members; ++m) {
    const auto part = std::string(choices.take(choices.below(2000)));
    text += part;
    if (!gzip) {
      content += part;
      continue;
    }
    z_stream stream{};
    require(deflateInit2(&stream, static_cast<int>(choices.below(10)), Z_DEFLATED, MAX_WBITS + 16,
                         1 + static_cast<int>(choices.below(9)), static_cast<int>(choices.below(5))) == Z_OK,
            "zlib has memory", "");
    std::string packed(deflateBound(&stream, part.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = static_cast<uInt>(part.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib compresses", "");
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    content += packed;
  }
  for (size_t i = choices.below(4); !right && i > 0 && !content.empty(); --i)
    content[choices.below(std::min<size_t>(content.size(), 65535))] = static_cast<char>(choices.below(256));
  if (!right && choices.below(4) == 0) content.resize(choices.below(content.size() + 1));
  static const fs::path file = [] {
    const fs::path memory = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    static const auto own = memory / ("foretime-fuzz-lines-" + std::to_string(getpid()));
    std::atexit([] { fs::remove(own); });
    return own;
  }();
  std::ofstream(file, std::ios::binary) << content;
  std::string read;
  bool cut = false;
  const bool ok = stored([&] {
    data::LineSource source(file, longest);
    int64_t number = 0;
    while (const auto line = source.next()) {
      require(source.line_number() == ++number, "lines are numbered", "");
      require((line->too_long || line->text.size() <= longest) && line->text.find('\n') == std::string_view::npos,
              "a line is one line", "");
      read += std::string(line->text) + "\n";
      cut = cut || line->too_long;
    }
  });
  const bool known = gzip || !text.starts_with("\x1f\x8b");
  if (!right || !known || cut) return;
  require(ok, "what zlib has compressed is read", "");
  std::string expected;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    expected += line + "\n";
    at = end + 1;
  }
  require(read == expected, "the lines are those of the text", "");
}

}  // namespace foretime::fuzz
