#include "models/convolutions/specs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/convolutions/chebnet.h"
#include "models/convolutions/gat.h"
#include "models/convolutions/gcn.h"
#include "models/convolutions/gin.h"
#include "models/convolutions/preactivated_gcn.h"
#include "models/convolutions/residual_gcn.h"
#include "models/convolutions/sage.h"
#include "models/convolutions/transformer.h"
#include "models/layers/encoder.h"

namespace foretime::models {
namespace {

using Settings = configs::ModelSettings;
using MakeSpec = ConvolutionSpec (*)(const Settings& settings, const InputSchema& schema);

bool apart(const Settings& settings) {
  if (settings.directions != "apart" && settings.directions != "together")
    throw ModelError(fmt::format("model.directions: '{}', expected apart or together", settings.directions));
  return settings.directions == "apart";
}

ConvolutionSpec directed(const Settings& settings, ConvolutionSpec spec) {
  return apart(settings) ? in_each_direction(spec) : spec;
}

ConvolutionSpec gcn(const Settings& settings, const InputSchema&) {
  return {GcnConvolution::relations(), 1,
          [width = settings.hidden](int64_t input) { return std::make_shared<GcnConvolution>(input, width); }};
}

ConvolutionSpec sage(const Settings& settings, const InputSchema&) {
  const auto aggregation = aggregation_named(settings.aggregation);
  return {SageConvolution::relations(aggregation, apart(settings)), 1,
          [width = settings.hidden, aggregation, apart = apart(settings)](int64_t input) {
            return std::make_shared<SageConvolution>(input, width, aggregation, apart);
          }};
}

ConvolutionSpec gin(const Settings& settings, const InputSchema&) {
  return directed(settings,
                  {GinConvolution::relations(), 1,
                   [width = settings.hidden, activation = Activation(settings), dropout = settings.dropout](
                       int64_t input) { return std::make_shared<GinConvolution>(input, width, activation, dropout); }});
}

ConvolutionSpec gat(const Settings& settings, const InputSchema&) {
  return directed(settings,
                  {GatConvolution::relations(), 1, [width = settings.hidden, heads = settings.heads](int64_t input) {
                     return std::make_shared<GatConvolution>(input, width, heads);
                   }});
}

ConvolutionSpec transformer(const Settings& settings, const InputSchema&) {
  return directed(settings, {TransformerConvolution::relations(), 1,
                             [width = settings.hidden, heads = settings.heads](int64_t input) {
                               return std::make_shared<TransformerConvolution>(input, width, heads);
                             }});
}

ConvolutionSpec chebnet(const Settings& settings, const InputSchema&) {
  if (settings.cheb_order < 1)
    throw ModelError(fmt::format("model.cheb_order: {}, expected at least 1", settings.cheb_order));
  return {ChebConvolution::relations(settings.cheb_lambda == "estimated"), ChebConvolution::hops(settings.cheb_order),
          [width = settings.hidden, order = settings.cheb_order](int64_t input) {
            return std::make_shared<ChebConvolution>(input, width, order);
          }};
}

ConvolutionSpec residual_gcn(const Settings& settings, const InputSchema& schema) {
  return {GcnConvolution::relations(), 1,
          [layouts = layout_columns(settings, schema), width = settings.hidden, activation = Activation(settings),
           dropout = settings.dropout](int64_t input) {
            return std::make_shared<ResidualGcnConvolution>(layouts, input, width, activation, dropout);
          }};
}

ConvolutionSpec preactivated_gcn(const Settings& settings, const InputSchema&) {
  return {PreactivatedGcnConvolution::relations(), 1,
          [activation = Activation(settings), dropout = settings.dropout](int64_t input) {
            return std::make_shared<PreactivatedGcnConvolution>(input, activation, dropout);
          }};
}

const std::vector<std::pair<std::string, MakeSpec>>& known() {
  static const std::vector<std::pair<std::string, MakeSpec>> specs = {
      {"gcn", gcn}, {"sage", sage}, {"gin", gin}, {"gat", gat}, {"chebnet", chebnet}, {"transformer", transformer},
  };
  return specs;
}

}  // namespace

std::vector<std::string> convolution_names() {
  std::vector<std::string> names;
  for (const auto& spec : known()) names.push_back(spec.first);
  return names;
}

Propagation make_propagation(const Settings& settings, const InputSchema& schema) {
  const auto layers = static_cast<size_t>(settings.layers);
  if (settings.type == "mlp") return {};
  if (settings.type == "residual_gcn")
    return {.layers = std::vector(layers, residual_gcn(settings, schema)), .residual = true};
  if (settings.type == "preactivated_gcn") {
    return {
        .layers = std::vector(layers, preactivated_gcn(settings, schema)), .residual = true, .activates_before = true};
  }
  Propagation result{.residual = settings.residual, .l2_normalize = settings.l2_normalize};
  const auto types = settings.type == "stacked" ? settings.convolutions : std::vector(layers, settings.type);
  for (const auto& type : types) {
    const auto& specs = known();
    const auto found = std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.first == type; });
    if (found == specs.end())
      throw ModelError(
          fmt::format("model.convolutions: '{}', expected {}", type, fmt::join(convolution_names(), ", ")));
    result.layers.push_back(found->second(settings, schema));
  }
  return result;
}

}  // namespace foretime::models
