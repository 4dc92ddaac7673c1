#include "data/frontends/hlo/hlo_file.h"

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr uint32_t kModules = 1;          // of TuningData
constexpr uint32_t kModule = 1;           // of ModuleTuningData and HloProto
constexpr uint32_t kModuleName = 1;       // of HloModuleProto
constexpr size_t kMostModules = 200'000;  // TpuGraphs' tile collection has 7,229
constexpr size_t kNameBytes = 120;        // of a module's name in a group's

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

/// The bytes of a file, mapped.
std::shared_ptr<const void> map_file(const std::string& path, std::string_view& bytes) {
  const auto fail = [&](const char* what) { throw DataError(fmt::format("{}: {}", path, what)); };
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) fail(std::strerror(errno));
  struct stat status {};
  if (::fstat(file.value, &status) != 0) fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("no regular file");
  if (status.st_size == 0) fail("an empty file, expected HloModuleProto, HloProto, ModuleTuningData or TuningData");
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (address == MAP_FAILED) fail(std::strerror(errno));
  bytes = {static_cast<const char*>(address), size};
  return {address, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); }};
}

std::string file_name_of(std::string_view name) {
  std::string fit(name.substr(0, kNameBytes));
  for (char& c : fit) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '.' && c != '-' && c != '_') c = '_';
  }
  return fit;
}

std::string module_name(const HloSource& source, std::string_view module_tuning_data) {
  std::string_view name;
  WireReader reader(source, module_tuning_data);
  for (WireField field; reader.next(field);) {
    if (!field.is_bytes(kModule)) continue;
    WireReader module(source, field.bytes);
    // The name comes first; to look on would be to read all of the module.
    WireField first;
    if (module.next(first) && first.is_bytes(kModuleName)) name = first.bytes;
  }
  return file_name_of(name);
}

}  // namespace

HloFile::HloFile(const std::filesystem::path& path, std::optional<HloMessage> message) {
  source_.name = path.string();
  mapping_ = map_file(source_.name, source_.bytes);
  open(path.stem().string(), message);
}

HloFile::HloFile(std::string_view bytes, std::string name, std::optional<HloMessage> message) {
  source_ = {.bytes = bytes, .name = std::move(name)};
  open(source_.name, message);
}

void HloFile::open(const std::string& stem, std::optional<HloMessage> message) {
  const auto found = message ? message : find_message(source_);
  if (!found)
    source_.fail(
        "no instruction with an opcode in it, expected HloModuleProto, HloProto, ModuleTuningData or "
        "TuningData as binary protobuf");
  message_ = *found;
  list_modules(stem);
}

void HloFile::list_modules(const std::string& stem) {
  if (message_ != HloMessage::tuning) {
    modules_.push_back({stem, source_.bytes});
    return;
  }
  std::set<std::string> names;
  WireReader reader(source_, source_.bytes);
  for (WireField field; reader.next(field);) {
    if (!field.is_bytes(kModules)) continue;
    if (modules_.size() == kMostModules)
      source_.fail(fmt::format("more than {} modules, which is the limit", kMostModules));
    std::string name = fmt::format("{}_{}", stem, module_name(source_, field.bytes));
    if (names.contains(name)) name += fmt::format("_{:016x}", outline_tuning(source_, field.bytes).fingerprint);
    if (names.contains(name)) name += fmt::format("_{}", modules_.size());
    names.insert(name);
    modules_.push_back({std::move(name), field.bytes});
  }
}

TuningOutline HloFile::outline(const Module& module) const {
  switch (message_) {
    case HloMessage::module:
      return {.module = {module.bytes}, .runs = {}, .layout_nodes = {}};
    case HloMessage::hlo: {
      TuningOutline outline;
      WireReader reader(source_, module.bytes);
      for (WireField field; reader.next(field);) {
        if (field.is_bytes(kModule)) outline.module.push_back(field.bytes);
      }
      return outline;
    }
    default:
      return outline_tuning(source_, module.bytes);
  }
}

}  // namespace foretime::data
