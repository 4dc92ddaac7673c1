#include "base/error.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/files.h"

namespace foretime {

void fail_check(const char* condition, std::string_view file, int line, const std::string& detail) {
  constexpr std::string_view kOwn = "base/error.cpp", kHere = __FILE__;
  const auto root = kHere.substr(0, kHere.size() - kOwn.size());
  if (file.starts_with(root)) file.remove_prefix(root.size());
  throw BrokenInvariant("this is a fault of Foretime, please report it: {}:{}: {}{}{}", file, line, condition,
                        detail.empty() ? "" : ": ", detail);
}

namespace {

/// Returns the error of the storage that fmt::print met, which writes standard output; null for any other error.
const std::system_error* output_failure(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  const bool of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  return system != nullptr && !of_file && is_storage_failure(system->code().value()) ? system : nullptr;
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->exit_code() == kOutOfMemory;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error))
    return system->code() == std::errc::not_enough_memory;
  // c10::Error of LibTorch 1.13 and 2.x, which this folder cannot name.
  constexpr std::array<std::string_view, 3> kTexts = {"can't allocate memory: you tried to allocate",
                                                      "CUDA out of memory", "CUDA error: out of memory"};
  const std::string_view text = error.what();
  return std::ranges::any_of(kTexts, [&](auto each) { return text.find(each) != std::string_view::npos; });
}

bool is_broken_pipe(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::broken_pipe;
}

int exit_code_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->exit_code();
  if (is_out_of_memory(error)) return kOutOfMemory;
  if (output_failure(error) != nullptr) return kStorage;
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return is_storage_failure(file->code().value()) ? kStorage : kData;
  return kInternal;
}

std::string text_of_error(const std::exception& error) {
  if (const auto* failure = output_failure(error))
    return "standard output: cannot be written: " + failure->code().message();
  const std::string_view text = error.what();
  if (!is_out_of_memory(error) || dynamic_cast<const Error*>(&error) != nullptr) return std::string(text);
  return fmt::format(
      "out of memory: {}; a training needs less with sampler.max_segment_nodes, smaller sampler.groups_per_batch, "
      "sampler.candidates_per_group and trainer.eval_states, and fewer ranks on this machine; "
      "or allow more (ulimit -v, memory of the batch job)",
      text.substr(0, text.find('\n')));
}

}  // namespace foretime
