#include "data/files/npz_reader.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/checksum.h"

namespace foretime::data {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::string NpzReader::origin(const std::string& name) const {
  return fmt::format("{}: entry {}", archive_.path().string(), name);
}

NpyStream NpzReader::open(const std::string& name) const {
  const ZipEntry* entry = archive_.find(name + ".npy");
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const auto& found : archive_.entries()) names.push_back(found.name);
    throw DataError(fmt::format("{}: missing, the archive has: {}", origin(name), joined(names)));
  }
  return NpyStream(archive_, *entry);
}

NpyStream NpzReader::open(const std::string& name, const ShapeRule& rule) const {
  NpyStream stream = open(name);
  const auto& shape = stream.header().shape;
  const bool fits = std::equal(shape.begin(), shape.end(), rule.sizes.begin(), rule.sizes.end(),
                               [](int64_t found, int64_t wanted) { return wanted == kAnySize || found == wanted; });
  if (!fits) {
    std::string expected = rule.words;
    if (std::count(rule.sizes.begin(), rule.sizes.end(), kAnySize) < static_cast<int64_t>(rule.sizes.size())) {
      std::vector<std::string> sizes;
      for (const int64_t size : rule.sizes) sizes.push_back(size == kAnySize ? "any" : std::to_string(size));
      const std::string text = fmt::format("({}{})", joined(sizes), sizes.size() == 1 ? "," : "");
      if (text != expected) expected += " = " + text;
    }
    throw DataError(fmt::format("{}: shape {}, expected {}", stream.origin(), shape_text(shape), expected));
  }
  return stream;
}

int64_t NpzReader::size(const std::string& name, const ShapeRule& rule, size_t dimension) const {
  return open(name, rule).header().shape.at(dimension);
}

std::vector<std::string> NpzReader::read_text(const std::string& name, const ShapeRule& rule) const {
  NpyStream stream = open(name, rule);
  auto texts = stream.read_text(stream.remaining());
  stream.finish();
  return texts;
}

uint64_t NpzReader::fingerprint() const {
  std::vector<const ZipEntry*> sorted;
  for (const auto& entry : archive_.entries()) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  std::string text;
  for (const auto* entry : sorted) text += fmt::format("{}\n{} {}\n", entry->name, entry->size, entry->crc);
  return checksum_of(std::span<const char>(text));
}

}  // namespace foretime::data
