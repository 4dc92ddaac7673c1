#include "configs/message_hops.h"

namespace foretime::configs {

int64_t message_hops(const ModelSettings& settings) {
  const auto of_one = [&](const std::string& type) { return type == "chebnet" ? settings.cheb_order - 1 : 1; };
  if (settings.type == "mlp") return 0;
  if (settings.type != "stacked") return settings.layers * of_one(settings.type);
  int64_t hops = 0;
  for (const auto& type : settings.convolutions) hops += of_one(type);
  return hops;
}

}  // namespace foretime::configs
