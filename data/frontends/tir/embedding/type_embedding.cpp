#include "data/frontends/tir/embedding/type_embedding.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <random>
#include <sstream>

#include <fasttext/fasttext.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/index_range.h"
#include "base/no_copy.h"
#include "base/numbers.h"
#include "base/read_input.h"
#include "data/graphs/pruning.h"

namespace foretime::data {
namespace {

constexpr int64_t kMaxWalkBytes = int64_t{1} << 28;
constexpr int kShortestSubword = 3, kLongestSubword = 6;
constexpr int kSubwordBuckets = 4096;  // 56 names have some 700 n-grams

/// Returns one of the neighbours of `at` that are not `from`; -1 if there is none.
int32_t next_node(const Neighbours& neighbours, int32_t at, int32_t from, std::mt19937_64& random) {
  const auto own = row_of(neighbours.nodes, neighbours.first, at);
  const uint64_t others = own.size() - std::ranges::count(own, from);
  if (others == 0) return -1;
  uint64_t left = random() % others;
  for (auto other = own.begin();; ++other)
    if (*other != from && left-- == 0) return *other;
}

/// Continues a walk from `from` to `at` and further, to a dead end or until the walk is long enough.
void grow(const Neighbours& neighbours, const GraphBlock& graphs, int32_t at, int32_t from, int64_t length,
          std::mt19937_64& random, std::vector<uint8_t>& types) {
  while (at >= 0 && std::ssize(types) < length) {
    types.push_back(graphs.node_types[at]);
    const int32_t next = next_node(neighbours, at, from, random);
    from = at;
    at = next;
  }
}

/// A file in memory, which libfasttext can open by its name: it reads its input from files only.
class MemoryFile : NoCopy {
 public:
  MemoryFile() : descriptor_(memfd_create("foretime-walks", MFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw DataError("node-type embeddings: found no file in memory for the text of walks: {}", std::strerror(errno));
  }
  ~MemoryFile() { close(descriptor_); }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

void check_settings(std::span<const Group* const> groups, std::span<const std::string_view> names,
                    const TypeEmbeddingSettings& settings) {
  const auto fail = [](const std::string& what) { throw DataError("node-type embeddings: " + what); };
  const auto in_range = [&](const char* name, int64_t value, int64_t largest) {
    if (value < 1 || value > largest) fail(fmt::format("{} {}, expected 1 … {}", name, value, largest));
  };
  in_range("dims", settings.dims, 4096);
  in_range("epochs", settings.epochs, 10000);
  in_range("window", settings.window, 1000);
  in_range("walk length", settings.walks.length, 1000);  // libfasttext cuts lines after 1024 words
  size_t longest = 0;
  for (const auto name : names) {
    if (name.empty() || name.find_first_of(" \t\r\n\v\f") != std::string_view::npos)
      fail(fmt::format("name '{}', expected one word", name));
    longest = std::max(longest, name.size() + 1);
  }
  in_range("walks", settings.walks.walks,
           kMaxWalkBytes / (settings.walks.length * static_cast<int64_t>(std::max<size_t>(1, longest))));
  if (!(settings.learning_rate > 0.0))
    fail(fmt::format("learning rate {}, expected more than 0", settings.learning_rate));
  for (const Group* group : groups)
    if (group->graphs.node_type_count > std::ssize(names))
      fail(fmt::format("group {}: {} node types, expected at most {}, as many as there are names", group->name,
                       group->graphs.node_type_count, names.size()));
}

fasttext::Args to_args(const TypeEmbeddingSettings& settings, const std::string& input) {
  fasttext::Args args;
  args.input = input;
  args.model = fasttext::model_name::sg;
  args.loss = fasttext::loss_name::softmax;
  args.dim = settings.dims;
  args.epoch = settings.epochs;
  args.ws = settings.window;
  args.lr = settings.learning_rate;
  args.minCount = 1;
  args.t = 1.0;  // keeps every word: with so few of them all are frequent
  args.minn = settings.subwords ? kShortestSubword : 0;
  args.maxn = settings.subwords ? kLongestSubword : 0;
  args.bucket = settings.subwords ? kSubwordBuckets : 0;
  args.thread = 1;
  args.verbose = 0;
  args.seed = (settings.walks.seed & 0x7fffffff);
  return args;
}

constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 28;

/// The parts of one line, by position.
class Line {
 public:
  Line(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& what) const { throw DataError("{}: {}", where_, what); }

  /// Returns the next word; empty at the end.
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
    const auto value = parse_number<Number>(text);
    if (!value) fail(fmt::format("'{}', expected {}", text, what));
    return *value;
  }
  void end() {
    if (const auto rest = word(); !rest.empty()) fail(fmt::format("'{}', expected the end of the line", rest));
  }

 private:
  std::string_view text_;
  std::string where_;
};

}  // namespace

void fill_unmet(TypeEmbeddings& embeddings) {
  const size_t dims = embeddings.dims;
  std::vector<double> mean(dims, 0.0);
  double met = 0.0;
  for (size_t t = 0; t < embeddings.names.size(); ++t) {
    if (embeddings.occurrences[t] == 0) continue;
    ++met;
    for (size_t d = 0; d < dims; ++d) mean[d] += embeddings.vectors[t * dims + d];
  }
  for (size_t t = 0; t < embeddings.names.size(); ++t) {
    if (embeddings.occurrences[t] > 0) continue;
    for (size_t d = 0; d < dims; ++d) embeddings.vectors[t * dims + d] = mean[d] / met;
  }
}

std::span<const float> TypeEmbeddings::of(int64_t type) const { return std::span(vectors).subspan(type * dims, dims); }

void walk_node_types(std::span<const Group* const> groups, const TypeWalkSettings& settings,
                     const std::function<void(std::span<const uint8_t> types)>& visit) {
  int64_t nodes = 0;
  for (const Group* group : groups) nodes += group->graphs.nodes();
  std::mt19937_64 random(settings.seed);
  std::vector<uint8_t> types;
  int64_t before = 0, done = 0;
  for (const Group* group : groups) {
    const GraphBlock& graphs = group->graphs;
    before += graphs.nodes();
    if (graphs.nodes() == 0) continue;
    const Neighbours neighbours(graphs);
    const int64_t due = std::llround(static_cast<double>(settings.walks) * before / nodes);
    for (; done < due; ++done) {
      types.clear();
      const int32_t start = random() % graphs.nodes();
      types.push_back(graphs.node_types[start]);
      const int32_t first = next_node(neighbours, start, -1, random);
      grow(neighbours, graphs, first, start, settings.length, random, types);
      std::ranges::reverse(types);
      if (first >= 0)
        grow(neighbours, graphs, next_node(neighbours, start, first, random), start, settings.length, random, types);
      if (types.size() > 1) visit(types);
    }
  }
}

TypeEmbeddings train_type_embeddings(std::span<const Group* const> groups, std::span<const std::string_view> names,
                                     const TypeEmbeddingSettings& settings) {
  check_settings(groups, names, settings);
  TypeEmbeddings embeddings;
  embeddings.dims = settings.dims;
  embeddings.names.assign(names.begin(), names.end());
  embeddings.occurrences.assign(names.size(), 0);
  embeddings.vectors.assign(names.size() * settings.dims, 0.0f);

  const MemoryFile text;
  std::ofstream stream(text.path());
  std::string line;
  int64_t walks = 0;
  walk_node_types(groups, settings.walks, [&](std::span<const uint8_t> types) {
    line.clear();
    for (const uint8_t type : types) {
      ++embeddings.occurrences[type];
      line.append(names[type]).push_back(' ');
    }
    line.back() = '\n';
    stream << line;
    ++walks;
  });
  stream.close();
  if (!stream) throw DataError("node-type embeddings: the walks' text could not be written to memory");
  if (walks == 0) throw DataError("node-type embeddings: no graph has an edge, expected programs to walk over");

  fasttext::FastText model;
  try {
    model.train(to_args(settings, text.path()));
    fasttext::Vector vector(settings.dims);
    for (size_t t = 0; t < names.size(); ++t) {
      if (embeddings.occurrences[t] == 0) continue;
      model.getWordVector(vector, embeddings.names[t]);
      std::copy_n(vector.data(), settings.dims, embeddings.vectors.begin() + t * settings.dims);
    }
  } catch (const std::exception& error) {
    throw DataError("node-type embeddings: FastText: {}", error.what());
  }
  fill_unmet(embeddings);
  return embeddings;
}

TypeEmbeddings read_type_vectors(const std::filesystem::path& file, std::span<const std::string_view> names,
                                 int64_t dims) {
  std::istringstream in(read_input(file, kMaxFileBytes));
  TypeEmbeddings embeddings;
  embeddings.dims = dims;
  embeddings.names.assign(names.begin(), names.end());
  embeddings.occurrences.assign(names.size(), 0);
  embeddings.vectors.assign(names.size() * dims, 0.0f);

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
    const size_t type = std::ranges::find(names, name) - names.begin();
    if (type == names.size()) continue;
    if (embeddings.occurrences[type]++ > 0) line.fail(fmt::format("'{}' again, expected each name once", name));
    for (int64_t d = 0; d < dims; ++d) {
      const auto value = line.number<float>("a number");
      if (!std::isfinite(value)) line.fail(fmt::format("'{}': {}, expected a finite number", name, value));
      embeddings.vectors[type * dims + d] = value;
    }
    line.end();
  }
  auto rest = next();
  if (in) rest.fail(fmt::format("more than the {} words that line 1 says", words));
  if (std::ranges::count(embeddings.occurrences, 0) == std::ssize(embeddings.occurrences))
    throw DataError("{}: none of the {} node types, expected vectors of words like {}", file.string(), names.size(),
                    names.empty() ? "" : names.front());
  fill_unmet(embeddings);
  return embeddings;
}

}  // namespace foretime::data
