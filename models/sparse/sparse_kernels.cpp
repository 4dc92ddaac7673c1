#include "models/sparse/sparse_kernels.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "inference/kernels/sparse_kernels.h"
#include "models/gpu/launch.h"
#include "models/gpu/sparse_kernels.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using gpu::for_each;
using gpu::uses_gpu_kernels;
using torch::Tensor;

template <class T>
T* pointer(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

inference::EntryRows cpu_rows(const CsrRows& matrix) {
  return {matrix.rows, matrix.row_ptr.data_ptr<int64_t>(), matrix.columns.data_ptr<int32_t>(),
          pointer<int32_t>(matrix.position)};
}

gpu::MatrixRows gpu_rows(const CsrRows& matrix) {
  const auto& rows = matrix.long_rows;
  return {pointer<int32_t>(matrix.row_ptr),  matrix.columns.data_ptr<int32_t>(),
          pointer<int32_t>(rows.rows),       pointer<int32_t>(rows.piece_ptr),
          pointer<int32_t>(rows.piece_rows), rows.rows.defined() ? static_cast<int>(rows.rows.size(0)) : 0};
}

/// Room for what the pieces of long rows give, as bytes; undefined where there are none.
template <class Value>
Tensor room_for_pieces(const LongRows& rows, int64_t lanes, torch::Device device) {
  if (!rows.rows.defined()) return {};
  return torch::empty({rows.piece_rows.size(0) * lanes * static_cast<int64_t>(sizeof(Value))},
                      torch::dtype(torch::kByte).device(device));
}

template <class Value>
Value* as(const Tensor& bytes) {
  return bytes.defined() ? reinterpret_cast<Value*>(bytes.data_ptr()) : nullptr;
}

/// A reduction of one matrix, whose member is `matrix`.
template <class Reduction>
void reduce_rows(Reduction reduction, const CsrRows& matrix, int64_t lanes, torch::Device device) {
  reduction.matrix = gpu_rows(matrix);
  reduction.lanes = lanes;
  const auto room = room_for_pieces<typename Reduction::Value>(matrix.long_rows, lanes, device);
  reduction.scratch = as<typename Reduction::Value>(room);
  if (room.defined())
    for_each(device, gpu::Pieces<Reduction>{reduction, 0}, matrix.long_rows.piece_rows.size(0) * lanes);
  for_each(device, gpu::Rows<Reduction>{reduction}, matrix.rows * lanes);
}

template <class T>
bool packs(std::initializer_list<Tensor> tensors, int64_t width) {
  if (width % 4 != 0) return false;
  for (const auto& tensor : tensors)
    if (tensor.defined() && reinterpret_cast<uintptr_t>(tensor.data_ptr()) % (4 * sizeof(T)) != 0) return false;
  return true;
}

template <class T, int V>
void csr_sum_on_gpu(const std::vector<RowsTerm>& terms, const Tensor& bias, double slope, Tensor& out) {
  const auto device = out.device();
  const int64_t width = out.size(1), lanes = width / V;
  for (size_t first = 0; first < terms.size(); first += gpu::kMaxTerms) {
    gpu::CsrSum<T, V> sum;
    const size_t last = std::min(terms.size(), first + gpu::kMaxTerms);
    sum.term_count = last - first;
    sum.lanes = lanes;
    sum.width = width;
    sum.accumulate = first > 0;
    sum.out = out.data_ptr<T>();
    if (last == terms.size()) {
      sum.bias = pointer<T>(bias);
      sum.slope = slope;
    }
    std::vector<Tensor> rooms;
    for (size_t t = first; t < last; ++t) {
      const CsrRows& matrix = terms[t].matrix;
      rooms.push_back(room_for_pieces<gpu::Pack<T, V>>(matrix.long_rows, lanes, device));
      sum.terms[t - first] = {gpu_rows(matrix), pointer<T>(matrix.values), pointer<T>(terms[t].x),
                              as<gpu::Pack<T, V>>(rooms.back())};
    }
    for (size_t t = first; t < last; ++t) {
      if (!rooms[t - first].defined()) continue;
      for_each(device, gpu::Pieces<gpu::CsrSum<T, V>>{sum, static_cast<int>(t - first)},
               terms[t].matrix.long_rows.piece_rows.size(0) * lanes);
    }
    for_each(device, gpu::Rows<gpu::CsrSum<T, V>>{sum}, out.size(0) * lanes);
  }
}

template <class T>
void csr_sum_on_cpu(const std::vector<RowsTerm>& terms, const Tensor& bias, double slope, Tensor& out) {
  std::vector<inference::CsrTerm<T>> raw;
  for (const RowsTerm& term : terms)
    raw.push_back({pointer<int64_t>(term.matrix.row_ptr), term.matrix.columns.data_ptr<int32_t>(),
                   pointer<T>(term.matrix.values), term.x.data_ptr<T>()});
  const inference::Epilogue<T> after{pointer<T>(bias), static_cast<T>(slope)};
  inference::csr_sum<T>(out.size(0), raw.data(), std::ssize(raw), after, out.size(1), out.data_ptr<T>());
}

}  // namespace

void CsrRows::append_to(torch::autograd::variable_list& saved) const {
  saved.insert(saved.end(),
               {row_ptr, columns, values, long_rows.rows, long_rows.piece_ptr, long_rows.piece_rows, position});
}

CsrRows CsrRows::from(const torch::autograd::variable_list& saved, size_t first) {
  const auto* at = &saved[first];
  const int64_t rows = at[0].defined() ? at[0].size(0) - 1 : at[1].size(0);
  return {rows, at[0], at[1], at[2], {at[3], at[4], at[5]}, false, at[6]};
}

CsrRows rows_of(const CsrTensor& matrix) {
  return {matrix.rows, matrix.row_ptr, matrix.columns, matrix.values, matrix.long_rows, matrix.zeros_are_none};
}

CsrRows transposed_rows_of(const CsrTensor& matrix) { return rows_of(transposed(matrix)); }

torch::Tensor csr_sum_kernel(const std::vector<RowsTerm>& terms, const SumEpilogue& epilogue) {
  std::vector<RowsTerm> ready = terms;
  for (auto& term : ready) term.x = term.x.contiguous();
  const auto& x = ready.front().x;
  auto out = torch::empty({ready.front().matrix.rows, x.size(1)}, x.options());
  const auto bias = epilogue.bias.defined() ? epilogue.bias.to(x.scalar_type()).contiguous() : Tensor();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "csr_sum_kernel", [&] {
    if (!uses_gpu_kernels(x.device())) return csr_sum_on_cpu<scalar_t>(ready, bias, epilogue.slope, out);
    bool packed = packs<scalar_t>({out, bias}, x.size(1));
    for (const auto& term : ready) packed = packed && packs<scalar_t>({term.x}, x.size(1));
    packed ? csr_sum_on_gpu<scalar_t, 4>(ready, bias, epilogue.slope, out)
           : csr_sum_on_gpu<scalar_t, 1>(ready, bias, epilogue.slope, out);
  });
  return out;
}

torch::Tensor activation_gradient_kernel(const torch::Tensor& gradient, const torch::Tensor& output, double slope) {
  if (uses_gpu_kernels(gradient.device())) {
    auto result = torch::empty_like(gradient);
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "activation_gradient_kernel", [&] {
      for_each(gradient.device(),
               gpu::ActivationGradient<scalar_t>{output.data_ptr<scalar_t>(), gradient.data_ptr<scalar_t>(),
                                                 static_cast<scalar_t>(slope), result.data_ptr<scalar_t>()},
               result.numel());
    });
    return result;
  }
  auto result = gradient.clone();
  AT_DISPATCH_FLOATING_TYPES(result.scalar_type(), "activation_gradient_kernel", [&] {
    inference::activation_gradient<scalar_t>(result.numel(), output.data_ptr<scalar_t>(), static_cast<scalar_t>(slope),
                                             result.data_ptr<scalar_t>());
  });
  return result;
}

Maxima csr_max_kernel(const CsrRows& matrix, const torch::Tensor& x) {
  const int64_t width = x.size(1);
  Maxima found{torch::empty({matrix.rows, width}, x.options()),
               torch::empty({matrix.rows, width}, x.options().dtype(torch::kInt))};
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "csr_max_kernel", [&] {
    auto* values = found.values.data_ptr<scalar_t>();
    auto* winners = found.winners.data_ptr<int32_t>();
    if (!uses_gpu_kernels(x.device())) {
      const auto rows = cpu_rows(matrix);
      return inference::csr_max<scalar_t>(rows.rows, rows.row_ptr, rows.columns, x.data_ptr<scalar_t>(), width, values,
                                          winners);
    }
    gpu::CsrMax<scalar_t> functor;
    functor.x = x.data_ptr<scalar_t>();
    if (matrix.zeros_are_none) functor.mask = matrix.values.data_ptr<scalar_t>();
    functor.out = values;
    functor.winner = winners;
    reduce_rows(functor, matrix, width, x.device());
  });
  return found;
}

torch::Tensor csr_max_gradient_kernel(const CsrRows& transposed, const torch::Tensor& winners,
                                      const torch::Tensor& gradient) {
  const int64_t width = gradient.size(1);
  auto result = torch::empty({transposed.rows, width}, gradient.options());
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "csr_max_gradient_kernel", [&] {
    if (!uses_gpu_kernels(gradient.device())) {
      const auto rows = cpu_rows(transposed);
      return inference::csr_max_gradient<scalar_t>(rows.rows, rows.row_ptr, rows.columns, winners.data_ptr<int32_t>(),
                                                   gradient.data_ptr<scalar_t>(), width, result.data_ptr<scalar_t>());
    }
    gpu::CsrMaxGradient<scalar_t> functor;
    functor.winner = winners.data_ptr<int32_t>();
    functor.from = gradient.data_ptr<scalar_t>();
    functor.out = result.data_ptr<scalar_t>();
    reduce_rows(functor, transposed, width, gradient.device());
  });
  return result;
}

torch::Tensor weighted_sum_kernel(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& x) {
  const int64_t heads = weights.size(1), width = x.size(1) / heads;
  auto out = torch::empty({matrix.rows, x.size(1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "weighted_sum_kernel", [&] {
    if (!uses_gpu_kernels(x.device()))
      return inference::weighted_sum<scalar_t>(cpu_rows(matrix), weights.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(),
                                               heads, width, out.data_ptr<scalar_t>());
    const auto by = [&](auto functor, int64_t lanes) {
      functor.position = pointer<int32_t>(matrix.position);
      functor.weights = weights.data_ptr<scalar_t>();
      functor.x = x.data_ptr<scalar_t>();
      functor.heads = heads;
      functor.head_width = width;
      functor.out = out.data_ptr<scalar_t>();
      reduce_rows(functor, matrix, lanes, x.device());
    };
    packs<scalar_t>({x, out}, width) ? by(gpu::WeightedSum<scalar_t, 4>(), heads * width / 4)
                                     : by(gpu::WeightedSum<scalar_t, 1>(), heads * width);
  });
  return out;
}

torch::Tensor entry_products_kernel(const CsrRows& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                    int64_t heads) {
  const int64_t entries = matrix.columns.size(0), width = a.size(1) / heads;
  auto out = torch::empty({entries, heads}, a.options());
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "entry_products_kernel", [&] {
    if (!uses_gpu_kernels(a.device()))
      return inference::entry_products<scalar_t>(cpu_rows(matrix), a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(),
                                                 heads, width, out.data_ptr<scalar_t>());
    const auto rows = entry_rows_on_gpu(matrix.row_ptr, entries);
    const auto by = [&](auto functor) {
      functor.entry_rows = rows.template data_ptr<int32_t>();
      functor.columns = matrix.columns.data_ptr<int32_t>();
      functor.a = a.data_ptr<scalar_t>();
      functor.b = b.data_ptr<scalar_t>();
      functor.heads = heads;
      functor.head_width = width;
      functor.out = out.data_ptr<scalar_t>();
      for_each(a.device(), functor, entries * heads);
    };
    packs<scalar_t>({a, b}, width) ? by(gpu::EntryProducts<scalar_t, 4>()) : by(gpu::EntryProducts<scalar_t, 1>());
  });
  return out;
}

torch::Tensor edge_softmax_kernel(const CsrRows& matrix, const torch::Tensor& logits) {
  const int64_t heads = logits.size(1), entries = matrix.columns.size(0);
  auto weights = torch::empty_like(logits);
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "edge_softmax_kernel", [&] {
    if (!uses_gpu_kernels(logits.device()))
      return inference::edge_softmax<scalar_t>(cpu_rows(matrix), pointer<scalar_t>(matrix.values),
                                               logits.data_ptr<scalar_t>(), heads, weights.data_ptr<scalar_t>());
    const auto largest = torch::empty({matrix.rows, heads}, logits.options());
    const auto sums = torch::empty_like(largest);
    gpu::EdgeSoftmaxSums<scalar_t> sum;
    sum.multiplicity = pointer<scalar_t>(matrix.values);
    sum.logits = logits.data_ptr<scalar_t>();
    sum.largest = largest.data_ptr<scalar_t>();
    sum.sums = sums.data_ptr<scalar_t>();
    reduce_rows(sum, matrix, heads, logits.device());
    const auto rows = entry_rows_on_gpu(matrix.row_ptr, entries);
    for_each(logits.device(),
             gpu::EdgeSoftmax<scalar_t>{rows.data_ptr<int32_t>(), sum.multiplicity, sum.logits, sum.largest, sum.sums,
                                        static_cast<int>(heads), weights.data_ptr<scalar_t>()},
             entries * heads);
  });
  return weights;
}

torch::Tensor edge_softmax_gradient_kernel(const CsrRows& matrix, const torch::Tensor& weights,
                                           const torch::Tensor& gradient) {
  const int64_t heads = weights.size(1), entries = matrix.columns.size(0);
  auto result = torch::empty_like(gradient);
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "edge_softmax_gradient_kernel", [&] {
    if (!uses_gpu_kernels(gradient.device()))
      return inference::edge_softmax_gradient<scalar_t>(cpu_rows(matrix), weights.data_ptr<scalar_t>(),
                                                        gradient.data_ptr<scalar_t>(), heads,
                                                        result.data_ptr<scalar_t>());
    const auto shares = torch::empty({matrix.rows, heads}, gradient.options());
    gpu::EdgeSoftmaxShares<scalar_t> share;
    share.weights = weights.data_ptr<scalar_t>();
    share.from = gradient.data_ptr<scalar_t>();
    share.out = shares.data_ptr<scalar_t>();
    reduce_rows(share, matrix, heads, gradient.device());
    const auto rows = entry_rows_on_gpu(matrix.row_ptr, entries);
    for_each(gradient.device(),
             gpu::EdgeSoftmaxGradient<scalar_t>{rows.data_ptr<int32_t>(), share.weights, share.from, share.out,
                                                static_cast<int>(heads), result.data_ptr<scalar_t>()},
             entries * heads);
  });
  return result;
}

torch::Tensor entry_rows_on_gpu(const torch::Tensor& row_ptr, int64_t entries) {
  auto rows = torch::empty({entries}, row_ptr.options());
  for_each(row_ptr.device(),
           gpu::EntryRows{row_ptr.data_ptr<int32_t>(), static_cast<int>(row_ptr.size(0) - 1), rows.data_ptr<int32_t>()},
           entries);
  return rows;
}

}  // namespace foretime::models
