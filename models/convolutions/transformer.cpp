#include "models/convolutions/transformer.h"

#include <cmath>

#include "models/convolutions/products.h"
#include "models/sparse/edge_ops.h"

namespace foretime::models {

TransformerConvolution::TransformerConvolution(int64_t input, int64_t output, int64_t heads)
    : heads_(heads),
      own_(register_module("own", dense_linear(input, output, true))),
      query_(register_module("query", dense_linear(input, output, false))),
      key_(register_module("key", dense_linear(input, output, false))),
      value_(register_module("value", dense_linear(input, output, false))) {
  head_width(output, heads);
}

std::vector<plans::RelationSpec> TransformerConvolution::relations() {
  return {{plans::Direction::both, plans::EdgeNorm::sum, /*self_loop=*/false}};
}

torch::Tensor TransformerConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&,
                                              double slope) {
  const LayerTensors& layer = hops[0];
  const CsrTensor& matrix = layer.relations[0];
  const auto self = own_states(states, layer);
  const double scale = 1.0 / std::sqrt(static_cast<double>(query_->options.out_features() / heads_));
  const auto query = query_->forward(self) * scale;
  const auto weights = edge_softmax(matrix, entry_products(matrix, query, key_->forward(states), heads_));
  return activated(own_->forward(self) + weighted_sum(matrix, weights, value_->forward(states)), slope);
}

std::string TransformerConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                             const FormLayout&, double slope) const {
  const auto self = own_states(writer, states, hops[0]);
  const double scale = 1.0 / std::sqrt(static_cast<double>(query_->options.out_features() / heads_));
  const auto query = writer.dense(self, writer.weight(query_->weight)),
             key = writer.dense(states, writer.weight(key_->weight)),
             value = writer.dense(states, writer.weight(value_->weight));
  const auto attended = writer.emit({.op = "attention",
                                     .result = {},
                                     .inputs = {query, key, value},
                                     .matrices = {hops[0].relations[0]},
                                     .mode = "dot",
                                     .numbers = {{"heads", static_cast<double>(heads_)}, {"scale", scale}}});
  const auto own = writer.dense(self, writer.weight(own_->weight), writer.weight(own_->bias));
  return writer.activated(writer.add({own, attended}), slope);
}

}  // namespace foretime::models
