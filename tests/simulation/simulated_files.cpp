#include "tests/simulation/simulated_files.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace foretime::simulation {

struct SimulatedFiles::Node {
  bool folder = false;
  std::string data, on_disk;    // of a file
  std::vector<Write> unsynced;  // that on_disk lacks
  std::map<std::string, std::shared_ptr<Node>> names, names_on_disk;

  static void apply(std::string& data, const Write& write, size_t bytes) {
    if (write.truncate) data.resize(write.offset);
    if (data.size() < write.offset + bytes) data.resize(write.offset + bytes);
    std::copy_n(write.bytes.begin(), bytes, data.begin() + static_cast<std::ptrdiff_t>(write.offset));
  }
  void write(Write write) {
    apply(data, write, write.bytes.size());
    unsynced.push_back(std::move(write));
  }
};

class SimulatedFiles::Writer final : public OutputFile {
 public:
  Writer(SimulatedFiles& files, Path path, std::shared_ptr<Node> node, uint64_t at)
      : files_(files), path_(std::move(path)), node_(std::move(node)), at_(at) {}

  void write(std::string_view bytes) override {
    if (!files_.check("write", path_, bytes.size())) return;
    const bool bounded = files_.capacity_ != UINT64_MAX;  // or the sum of all files need not be known
    const auto used = bounded ? files_.used() : 0;
    const auto room = files_.capacity_ > used ? files_.capacity_ - used : 0;
    const auto now = bytes.substr(0, std::min<uint64_t>(room, bytes.size()));
    if (!now.empty()) node_->write({at_, std::string(now), false});
    at_ += now.size();
    if (now.size() < bytes.size()) throw_file_error(path_, "cannot be written: write", ENOSPC);
  }
  void seek(uint64_t offset) override { at_ = offset; }
  void sync() override {
    if (!files_.check("sync", path_) || files_.forgets_syncs_) return;
    node_->on_disk = node_->data;
    node_->unsynced.clear();
  }
  void close() override { files_.check("close", path_); }

 private:
  SimulatedFiles& files_;
  Path path_;
  std::shared_ptr<Node> node_;
  uint64_t at_;
};

SimulatedFiles::SimulatedFiles() : root_(std::make_shared<Node>()) { root_->folder = true; }
SimulatedFiles::~SimulatedFiles() = default;

bool SimulatedFiles::check(const char* operation, const Path& path, size_t bytes) {
  ++operations_;
  const int error = fault_ ? fault_(operation, path, bytes) : 0;
  if (error > 0) throw_file_error(path, operation, error);
  return error == 0;
}

std::shared_ptr<SimulatedFiles::Node> SimulatedFiles::find(const Path& path) const {
  auto node = root_;
  for (const auto& part : path.lexically_normal().relative_path()) {
    if (part.empty() || part == ".") continue;
    const auto at = node->names.find(part.string());
    if (at == node->names.end()) return nullptr;
    node = at->second;
  }
  return node;
}

std::shared_ptr<SimulatedFiles::Node> SimulatedFiles::folder_of(const Path& path, const char* doing) const {
  auto folder = find(path.parent_path());
  if (!folder) throw_file_error(path, doing, ENOENT);
  if (!folder->folder) throw_file_error(path, doing, ENOTDIR);
  return folder;
}

void SimulatedFiles::apply(const Group& group, bool on_disk) {
  for (const auto& [folder, name, node] : group) {
    auto& names = on_disk ? folder->names_on_disk : folder->names;
    if (node) names[name] = node;
    else names.erase(name);
  }
}

void SimulatedFiles::change(Group group) {
  apply(group, false);
  unsynced_.push_back(std::move(group));
}

std::unique_ptr<OutputFile> SimulatedFiles::open(const Path& path, Open how) {
  if (!check("open", path)) return std::make_unique<Writer>(*this, path, std::make_shared<Node>(), 0);
  const auto folder = folder_of(path, "cannot be written: open");
  auto node = find(path);
  if (node && how == Open::create) return nullptr;
  if (node && node->folder) throw_file_error(path, "cannot be written: open", EISDIR);
  if (!node) {
    node = std::make_shared<Node>();
    change({{folder, path.filename().string(), node}});
  } else if (how == Open::replace) {
    node->write({0, "", true});
  }
  return std::make_unique<Writer>(*this, path, node, how == Open::append ? node->data.size() : 0);
}

std::string SimulatedFiles::read(const Path& path) {
  if (!check("read", path)) return "";
  const auto node = find(path);
  if (!node) throw_file_error(path, "cannot be read: open", ENOENT);
  if (node->folder) throw_file_error(path, "cannot be read: read", EISDIR);
  return node->data;
}

bool SimulatedFiles::exists(const Path& path) {
  if (!check("look", path)) return false;
  return find(path) != nullptr;
}

bool SimulatedFiles::is_folder(const Path& path) {
  if (!check("look", path)) return false;
  const auto node = find(path);
  return node && node->folder;
}

std::vector<Files::Path> SimulatedFiles::list(const Path& folder) {
  if (!check("list", folder)) return {};
  std::vector<Path> found;
  const auto node = find(folder);
  if (!node) return found;
  for (const auto& [name, child] : node->names) found.push_back(folder / name);
  return found;
}

void SimulatedFiles::create_folders(const Path& path) {
  Path so_far;
  for (const auto& part : path.lexically_normal()) {
    so_far /= part;
    if (!find(so_far)) create_folder(so_far);
  }
}

bool SimulatedFiles::create_folder(const Path& path) {
  if (!check("mkdir", path)) return true;
  if (find(path)) return false;
  auto node = std::make_shared<Node>();
  node->folder = true;
  change({{folder_of(path, "cannot be created"), path.filename().string(), node}});
  return true;
}

void SimulatedFiles::rename(const Path& from, const Path& to) {
  if (!check("rename", to)) return;
  const auto node = find(from);
  if (!node) throw_file_error(from, "cannot be replaced", ENOENT);
  if (const auto there = find(to); there && there->folder && !there->names.empty())
    throw_file_error(to, "cannot be replaced", ENOTEMPTY);
  change({{folder_of(from, "rename"), from.filename().string(), nullptr},
          {folder_of(to, "rename"), to.filename().string(), node}});
}

bool SimulatedFiles::exchange(const Path& a, const Path& b) {
  if (!check("rename", b)) return true;
  const auto first = find(a), second = find(b);
  if (!first || !second) throw_file_error(first ? b : a, "cannot be replaced", ENOENT);
  change({{folder_of(a, "rename"), a.filename().string(), second},
          {folder_of(b, "rename"), b.filename().string(), first}});
  return true;
}

void SimulatedFiles::remove(const Path& path) {
  if (!check("remove", path)) return;
  const auto node = find(path);
  if (!node) return;
  // As rm -r does: what is inside goes first, each name by itself.
  const auto names = node->names;
  for (const auto& [name, child] : names) remove(path / name);
  change({{folder_of(path, "cannot be removed"), path.filename().string(), nullptr}});
}

void SimulatedFiles::truncate(const Path& path, uint64_t bytes) {
  if (!check("truncate", path)) return;
  const auto node = find(path);
  if (!node) throw_file_error(path, "cannot be cut", ENOENT);
  node->write({bytes, "", true});
}

void SimulatedFiles::sync_folder(const Path& path) {
  if (!check("sync", path)) return;
  const auto folder = find(path);
  if (!folder) throw_file_error(path, "cannot be written: open", ENOENT);
  std::erase_if(unsynced_, [&](const Group& group) {
    const bool here = std::ranges::any_of(group, [&](const NameChange& change) { return change.folder == folder; });
    if (here) apply(group, true);
    return here;
  });
}

uint64_t SimulatedFiles::used() const {
  uint64_t sum = 0;
  for (const auto& [path, data] : contents()) sum += data.size();
  return sum;
}

void SimulatedFiles::lose_power(const std::function<Fate()>& fate) {
  lose_power_by([&](const auto&, bool) { return fate(); });
}

void SimulatedFiles::lose_power_by(const std::function<Fate(const std::string& name, bool of_name)>& fate) {
  for (const auto& group : unsynced_) {
    if (fate(group.back().name, true) == Fate::kept) apply(group, true);
  }
  unsynced_.clear();
  std::vector<std::pair<std::string, std::shared_ptr<Node>>> all = {{"", root_}};
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [name, node] = all[i];
    node->names = node->names_on_disk;
    for (const auto& write : node->unsynced) lose(*node, write, fate(name, false));
    node->unsynced.clear();
    node->data = node->on_disk;
    for (const auto& child : node->names) all.push_back(child);
  }
}

void SimulatedFiles::lose(Node& node, const Write& write, Fate fate) {
  const auto size = write.bytes.size();
  switch (fate) {
    case Fate::lost: break;
    case Fate::kept: Node::apply(node.on_disk, write, size); break;
    case Fate::torn: Node::apply(node.on_disk, write, size / 2); break;
    case Fate::torn_early: Node::apply(node.on_disk, write, std::min<size_t>(size, 1)); break;
    case Fate::torn_late: Node::apply(node.on_disk, write, size - std::min<size_t>(size, 1)); break;
    case Fate::zeroed: Node::apply(node.on_disk, {write.offset, std::string(size, '\0'), write.truncate}, size); break;
  }
}

void SimulatedFiles::collect(const Node& node, const std::string& path,
                             std::map<std::string, std::string>& found) const {
  for (const auto& [name, child] : node.names) {
    if (child->folder) collect(*child, path + "/" + name, found);
    else found[path + "/" + name] = child->data;
  }
}

std::map<std::string, std::string> SimulatedFiles::contents() const {
  std::map<std::string, std::string> found;
  collect(*root_, "", found);
  return found;
}

}  // namespace foretime::simulation
