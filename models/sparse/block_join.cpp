#include "models/sparse/block_join.h"

#include <algorithm>
#include <utility>

#include "models/gpu/launch.h"

namespace foretime::models {
namespace {

using torch::Tensor;

/// Copies or fills one run of words, as gpu::JoinWords does.
template <class Word>
void copy_run(const gpu::WordRun<Word>& run, int64_t end) {
  const int64_t count = end - run.first;
  if (run.from != nullptr) {
    for (int64_t i = 0; i < count; ++i) run.to[i] = run.from[i] + run.plus;
  } else {
    for (int64_t i = 0; i < count; ++i) run.to[i] = static_cast<Word>(run.counts * i) + run.plus;
  }
}

/// A sum that grows from block to block.
struct Running {
  int64_t sum = 0;
  int64_t next(int64_t count) { return std::exchange(sum, sum + count); }
};

}  // namespace

template <class Word>
void WordRuns<Word>::add(const void* from, Word* to, int64_t count, int64_t plus, bool counts) {
  list_.push_back({static_cast<const Word*>(from), to, words_, static_cast<Word>(plus), counts});
  words_ += count;
}

template <class Word>
void WordRuns<Word>::place(gpu::Arena& arena) {
  table_ = arena.add_bytes(list_.data(), list_.size() * sizeof(gpu::WordRun<Word>));
}

template <class Word>
void WordRuns<Word>::join(torch::Device device) const {
  if (!gpu::uses_gpu_kernels(device)) {
    for (size_t i = 0; i < list_.size(); ++i) copy_run(list_[i], i + 1 < list_.size() ? list_[i + 1].first : words_);
    return;
  }
  const auto* runs = reinterpret_cast<const gpu::WordRun<Word>*>(table_.data_ptr());
  gpu::for_each(device, gpu::JoinWords<Word>{runs, static_cast<int>(list_.size())}, words_);
}

template class WordRuns<int>;
template class WordRuns<long long>;

/// Describes a part of an array: elements `first`, … of `from`; if undefined, zeros or 0, 1, 2, …; each plus `plus`.
struct BlockJoin::Part {
  Tensor from = {};
  int64_t first = 0, count = 0;
  int64_t plus = 0;
  bool counts = false;

  static Part of(const Tensor& from, int64_t plus = 0, int64_t first = 0) {
    return {from, first, from.numel() - first, plus};
  }
  static Part numbers(int64_t from, int64_t count) { return {{}, 0, count, from, true}; }
  static Part same(int64_t value, int64_t count) { return {{}, 0, count, value}; }
};

/// Row pointers of a matrix; undefined for a gather, which has one entry in each of its `rows` rows.
struct BlockJoin::Pointers {
  Tensor row_ptr;
  int64_t rows, entries;
};

Tensor BlockJoin::array(const std::vector<Part>& parts, torch::Dtype dtype) {
  int64_t count = 0;
  for (const auto& part : parts) count += part.count;
  const auto out = torch::empty({count}, torch::dtype(dtype).device(options_.device));
  kept_.push_back(out);
  int64_t at = 0;
  const auto add = [&]<class Word>(WordRuns<Word>& words, const Part& part) {
    const auto* from = part.from.defined() ? static_cast<const Word*>(address(part.from)) + part.first : nullptr;
    words.add(from, static_cast<Word*>(out.data_ptr()) + at, part.count, part.plus, part.counts);
  };
  for (const auto& part : parts) {
    if (part.count == 0) continue;
    out.element_size() == 4 ? add(words4_, part) : add(words8_, part);
    if (part.from.defined()) kept_.push_back(part.from);
    at += part.count;
  }
  return out;
}

void BlockJoin::bring_up(const Tensor& home, int64_t bytes) {
  auto copied = gpu::copy_to(options_.device, home, bytes);
  const auto* begin = static_cast<const char*>(home.data_ptr());
  moved_.push_back({begin, begin + bytes, static_cast<const char*>(copied.bytes.data_ptr())});
  kept_.push_back(std::move(copied.bytes));
  if (copied.upload) after(std::move(copied.upload));
}

const void* BlockJoin::address(const Tensor& tensor) const {
  const auto* at = static_cast<const char*>(tensor.data_ptr());
  for (const auto& each : moved_)
    if (at >= each.begin && at < each.end) return each.to + (at - each.begin);
  return at;
}

Tensor BlockJoin::row_pointers(const std::vector<Pointers>& matrices) {
  std::vector<Part> parts = {Part::same(0, 1)};
  Running entries;
  for (const auto& each : matrices) {
    const auto before = entries.next(each.entries);
    parts.push_back(each.row_ptr.defined() ? Part::of(each.row_ptr, before, 1) : Part::numbers(before + 1, each.rows));
  }
  return array(parts, row_ptr_type_on(options_.device));
}

LongRows BlockJoin::long_rows(const std::vector<const LongRows*>& blocks, const std::vector<int64_t>& rows) {
  if (std::none_of(blocks.begin(), blocks.end(), [](const auto* each) { return each->rows.defined(); })) return {};
  std::vector<Part> row_parts, pointer_parts = {Part::same(0, 1)}, piece_parts;
  Running row, listed, pieces;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto before = row.next(rows[i]);
    const LongRows& own = *blocks[i];
    if (!own.rows.defined()) continue;
    row_parts.push_back(Part::of(own.rows, before));
    pointer_parts.push_back(Part::of(own.piece_ptr, pieces.next(own.piece_rows.numel()), 1));
    piece_parts.push_back(Part::of(own.piece_rows, listed.next(own.rows.numel())));
  }
  return {array(row_parts, torch::kInt), array(pointer_parts, torch::kInt), array(piece_parts, torch::kInt)};
}

Tensor BlockJoin::values(const std::vector<Tensor>& blocks, const std::vector<int64_t>& entries) {
  if (std::none_of(blocks.begin(), blocks.end(), [](const auto& each) { return each.defined(); })) return {};
  const int64_t bits_of_one = options_.dtype == torch::kDouble ? 0x3ff0000000000000 : 0x3f800000;
  std::vector<Part> parts;
  for (size_t i = 0; i < blocks.size(); ++i)
    parts.push_back(blocks[i].defined() ? Part::of(blocks[i]) : Part::same(bits_of_one, entries[i]));
  return array(parts, options_.dtype);
}

Tensor BlockJoin::shifted(const std::vector<Tensor>& blocks, const std::vector<int64_t>& by) {
  std::vector<Part> parts;
  Running before;
  for (size_t i = 0; i < blocks.size(); ++i) parts.push_back(Part::of(blocks[i], before.next(by[i])));
  return array(parts, torch::kInt);
}

CsrTensor BlockJoin::diagonal(const std::vector<const CsrTensor*>& blocks) {
  CsrTensor result;
  std::vector<int64_t> rows, cols, entries;
  std::vector<Pointers> pointers, turned_pointers;
  std::vector<const LongRows*> longs, turned_longs;
  std::vector<Tensor> columns, turned_columns, block_values, turned_values, positions;
  bool gather = true;
  for (const auto* block : blocks) {
    result.rows += block->rows;
    result.cols += block->cols;
    rows.push_back(block->rows);
    cols.push_back(block->cols);
    entries.push_back(block->columns.numel());
    pointers.push_back({block->row_ptr, block->rows, entries.back()});
    turned_pointers.push_back({block->transposed_row_ptr, block->cols, entries.back()});
    longs.push_back(&block->long_rows);
    turned_longs.push_back(&block->transposed_long_rows);
    columns.push_back(block->columns);
    turned_columns.push_back(block->transposed_columns);
    block_values.push_back(block->values);
    turned_values.push_back(block->transposed_values);
    positions.push_back(block->transposed_positions);
    gather = gather && !block->row_ptr.defined();
  }
  if (!gather) result.row_ptr = row_pointers(pointers);
  result.columns = shifted(columns, cols);
  result.values = values(block_values, entries);
  result.long_rows = long_rows(longs, rows);
  if (!turned_columns.front().defined()) return result;
  result.transposed_row_ptr = row_pointers(turned_pointers);
  result.transposed_columns = shifted(turned_columns, rows);
  result.transposed_values = values(turned_values, entries);
  result.transposed_long_rows = long_rows(turned_longs, cols);
  if (positions.front().defined()) result.transposed_positions = shifted(positions, entries);
  return result;
}

Tensor BlockJoin::below_each_other(const std::vector<Tensor>& matrices) {
  std::vector<Part> parts;
  for (const auto& each : matrices) parts.push_back(Part::of(each));
  return array(parts, matrices.front().scalar_type()).view({-1, matrices.front().size(1)});
}

CsrTensor BlockJoin::identity(int64_t states) const {
  CsrTensor result;
  result.rows = result.cols = states;
  const auto numbers = torch::dtype(torch::kInt).device(options_.device);
  result.columns = result.transposed_columns = torch::arange(states, numbers);
  result.transposed_row_ptr = torch::arange(states + 1, numbers.dtype(row_ptr_type_on(options_.device)));
  return result;
}

void BlockJoin::place(gpu::Arena& arena) {
  words4_.place(arena);
  words8_.place(arena);
}

void BlockJoin::join() {
  for (const auto& each : uploads_) each->wait();
  words4_.join(options_.device);
  words8_.join(options_.device);
  kept_.clear();
}

}  // namespace foretime::models
