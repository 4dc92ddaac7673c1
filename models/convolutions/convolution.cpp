#include "models/convolutions/convolution.h"

#include <fmt/format.h>

namespace foretime::models {

Value Messages::own(GraphBuilder& builder, Value value) const {
  for (const Hop& hop : hops) value = builder.csr_sum({{hop.self, value}});
  return value;
}

int64_t head_width(int64_t width, int64_t heads) {
  if (heads < 1 || width % heads != 0)
    throw ModelError(fmt::format("heads: {}, expected a divisor of model.hidden, {}", heads, width));
  return width / heads;
}

Convolution in_each_direction(configs::Directions directions, const Convolution& convolution) {
  if (directions == configs::Directions::together) return convolution;
  auto producers = convolution.relations.at(0), consumers = producers;
  producers.direction = plans::Direction::in;
  consumers.direction = plans::Direction::out;
  const auto build = [part = convolution.build](GraphBuilder& b, const Messages& messages) {
    const auto one = [&](const char* name, size_t relation) {
      const GraphBuilder::Scope scope(b, name);
      Messages own = messages;
      for (Hop& hop : own.hops) hop.relations = {hop.relations.at(relation)};
      own.slope = 1.0;
      return part(b, own);
    };
    const Value first = one("producers", 0);
    return b.activated(b.add({first, one("consumers", 1)}), messages.slope);
  };
  return {{producers, consumers}, convolution.hops, build};
}

}  // namespace foretime::models
