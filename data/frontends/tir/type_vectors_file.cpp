#include "data/frontends/tir/type_vectors_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace foretime::data {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 28;

/// The parts of one line, by position.
class Line {
 public:
  Line(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& what) const { throw DataError(fmt::format("{}: {}", where_, what)); }

  /// Empty at the end.
  std::string_view word() {
    const auto begin = std::min(text_.find_first_not_of(" \t\r"), text_.size());
    text_.remove_prefix(begin);
    const auto word = text_.substr(0, text_.find_first_of(" \t\r"));
    text_.remove_prefix(word.size());
    return word;
  }
  template <class Number>
  Number number(const char* what) {
    const auto text = word();
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail(fmt::format("'{}', expected {}", text, what));
    return value;
  }
  void end() {
    if (const auto rest = word(); !rest.empty()) fail(fmt::format("'{}', expected the end of the line", rest));
  }

 private:
  std::string_view text_;
  std::string where_;
};

}  // namespace

void write_type_vectors(const TypeEmbeddings& embeddings, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  out << fmt::format("{} {}\n", embeddings.types(), embeddings.dims);
  for (int64_t type = 0; type < embeddings.types(); ++type) {
    out << embeddings.names[static_cast<size_t>(type)];
    for (const float value : embeddings.of(type)) out << fmt::format(" {}", value);
    out << '\n';
  }
  if (!out.flush()) throw DataError(fmt::format("{}: cannot be written", file.string()));
}

TypeEmbeddings read_type_vectors(const std::filesystem::path& file, std::span<const std::string_view> names,
                                 int64_t dims) {
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(file, failure);
  std::ifstream in(file, std::ios::binary);
  if (failure || !in) throw DataError(fmt::format("{}: cannot be read, expected vectors of node types", file.string()));
  if (bytes > kMaxFileBytes)
    throw DataError(fmt::format("{}: {} bytes, expected at most {}", file.string(), bytes, kMaxFileBytes));
  TypeEmbeddings embeddings;
  embeddings.dims = dims;
  embeddings.names.assign(names.begin(), names.end());
  embeddings.occurrences.assign(names.size(), 0);
  embeddings.vectors.assign(names.size() * static_cast<size_t>(dims), 0.0f);

  std::string text;
  int64_t number = 0;
  const auto next = [&] {
    if (!std::getline(in, text)) text.clear();
    return Line(text, fmt::format("{}: line {}", file.string(), ++number));
  };
  auto head = next();
  const auto words = head.number<int64_t>("a number of words");
  const auto columns = head.number<int64_t>("a number of columns");
  head.end();
  if (columns != dims)
    head.fail(fmt::format("vectors of {} columns, expected {} (model.node_type_embedding)", columns, dims));
  for (int64_t word = 0; word < words; ++word) {
    auto line = next();
    if (!in) line.fail(fmt::format("the end of the file, expected {} words as line 1 says", words));
    const auto name = line.word();
    const auto type = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (type == names.size()) continue;
    if (embeddings.occurrences[type]++ > 0) line.fail(fmt::format("'{}' for the second time", name));
    for (size_t d = 0; d < static_cast<size_t>(dims); ++d) {
      const auto value = line.number<float>("a number");
      if (!std::isfinite(value)) line.fail(fmt::format("'{}': {}, expected a finite number", name, value));
      embeddings.vectors[type * static_cast<size_t>(dims) + d] = value;
    }
    line.end();
  }
  auto rest = next();
  if (in) rest.fail(fmt::format("more than the {} words that line 1 says", words));
  if (std::count(embeddings.occurrences.begin(), embeddings.occurrences.end(), 0) ==
      std::ssize(embeddings.occurrences)) {
    throw DataError(fmt::format("{}: none of the {} node types, expected vectors of words like {}", file.string(),
                                names.size(), names.empty() ? "" : names.front()));
  }
  fill_unmet(embeddings);
  return embeddings;
}

}  // namespace foretime::data
