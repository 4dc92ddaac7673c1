#include "inference/bundle/bundle.h"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "data/files/file_form.h"
#include "inference/files/safetensors_file.h"
#include "inference/files/strict_json.h"

namespace foretime::inference {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "foretime-bundle";
constexpr size_t kMostLevels = 32;                     // depth of the manifest's JSON
constexpr size_t kMostMembers = 10'000;                // members of each of its objects
constexpr size_t kLargestManifest = size_t{64} << 20;  // bytes
constexpr uint64_t kLargestFile = uint64_t{4} << 30;   // bytes

Json parse_manifest(const std::string& text) {
  if (text.size() > kLargestManifest)
    throw BundleError("manifest: {} bytes, expected at most {}", text.size(), kLargestManifest);
  return parse_strict_json(text, "manifest", {.levels = kMostLevels, .object_members = kMostMembers});
}

inference::Weight to_weight(const std::string& name, const inference::StoredArray& array) {
  if (array.type != "F32") throw BundleError("tensor {}: type {}, expected F32", name, array.type);
  inference::Weight weight{array.shape, std::vector<float>(array.bytes.size() / sizeof(float))};
  if (!array.bytes.empty()) std::memcpy(weight.values.data(), array.bytes.data(), array.bytes.size());
  return weight;
}

const std::string& metadatum(const inference::StoredArrays& stored, const char* key) {
  const auto found = stored.metadata.find(key);
  if (found == stored.metadata.end())
    throw BundleError("no metadata {}, expected a bundle as `foretime export` writes it", key);
  return found->second;
}

Bundle read(std::string_view bytes, const std::string& origin) {
  const auto stored = inference::parse_arrays(bytes, origin);
  Bundle bundle;
  try {
    if (const auto& format = metadatum(stored, "format"); format != kFormat)
      throw BundleError("metadata format: '{:.40}', expected {}", format, kFormat);
    if (const auto& version = metadatum(stored, "format_version"); version != fmt::to_string(kBundleVersion))
      throw BundleError(
          "metadata format_version: '{:.40}'; this library, Foretime {}, reads version {}: export the run again "
          "(foretime export RUN FILE), or use the library of the bundle's version",
          version, FORETIME_VERSION, kBundleVersion);
    bundle.manifest = parse_manifest(metadatum(stored, "manifest"));
    for (const auto& [name, array] : stored.arrays) bundle.weights.emplace(name, to_weight(name, array));
    read_scoring_spec(bundle);
  } catch (const BundleError& error) {
    throw BundleError("{}: {}", origin, error.what());
  }
  return bundle;
}

}  // namespace

std::string serialize_bundle(const Bundle& bundle) {
  read_scoring_spec(bundle);
  inference::NamedArrays arrays;
  for (const auto& [name, weight] : bundle.weights) {
    const std::string_view bytes(reinterpret_cast<const char*>(weight.values.data()),
                                 weight.values.size() * sizeof(float));
    arrays.emplace_back(name, inference::StoredArray{"F32", weight.shape, bytes});
  }
  std::string manifest;
  try {
    manifest = bundle.manifest.dump();
  } catch (const Json::exception& error) {
    throw BundleError("manifest: a text that is not UTF-8: {}", error.what());
  }
  return inference::serialize_arrays(
      arrays, {{"format", kFormat}, {"format_version", fmt::to_string(kBundleVersion)}, {"manifest", manifest}});
}

Bundle parse_bundle(std::string_view bytes, const std::string& origin) { return read(bytes, origin); }

Bundle read_bundle(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    if (is_storage_failure(error.value())) throw_file_error(path, "cannot be read", error.value());
    if (std::filesystem::is_regular_file(path / "config.yaml", error))
      throw FileError(
          "{}: found a run directory, expected a bundle, which is a file: foretime export {} model.foretime writes one "
          "(in Python foretime.Run(\"{}\").export(\"model.foretime\"))",
          path.string(), shell_word(path.string()), path.string());
    throw FileError("{}: {}", path.string(),
                    std::filesystem::exists(path, error) ? "found no regular file, expected a bundle"
                                                         : std::generic_category().message(ENOENT));
  }
  try {
    data::expect_form(path, {data::FileForm::bundle}, "a bundle, as foretime export writes it");
  } catch (const DataError& error) {
    throw BundleError("{}", error.what());
  }
  const auto size = files().size(path);
  if (size > kLargestFile)
    throw BundleError("{}: {} bytes, expected at most {} of a bundle", path.string(), size, kLargestFile);
  return parse_bundle(files().read(path), path.string());
}

void write_bundle(const std::filesystem::path& path, const Bundle& bundle) {
  write_file_atomically(path, serialize_bundle(bundle), AtomicFile::Leftovers::remove);
}

}  // namespace foretime::inference
