#include <fmt/format.h>

#include "inference/graph/graph.h"

namespace foretime::inference {
namespace {

std::string lines_of(const std::vector<Node>& nodes, ScriptWriter& writer) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    writer.result = value_of(i);
    const auto expression = std::visit([&](const auto& o) { return o.script(writer); }, nodes[i].operation);
    text += fmt::format("    {} = {}\n", to_string(writer.result), expression);
  }
  return text;
}

}  // namespace

TorchScriptSource torchscript_source(const Graph& graph) {
  ScriptWriter writer;
  std::string text = "\ndef embed(self, inputs: Dict[str, Tensor]) -> Tensor:\n    m = inputs.copy()\n";
  for (const Value input : {kNodeFeatures, kLayoutRows, kCandidateFeatures}) {
    bool read = false;
    for (const auto& node : graph.embed) visit_all<Value>(node.operation, [&](Value value) { read |= value == input; });
    if (read) text += fmt::format("    {0} = m[\"{0}\"]\n", to_string(input));
  }
  text += lines_of(graph.embed, writer);
  text += fmt::format("    return {}\n", to_string(graph.embedded));
  text += "\ndef score(self, embedded: Tensor, group_ptr: Tensor) -> Tensor:\n" + lines_of(graph.score, writer);
  // Of one column a vector; of two, the second is turned into chances.
  text += fmt::format("    s = {}\n    if s.size(1) == 2:\n", to_string(graph.scores));
  text += "        return torch.stack([s[:, 0], torch.sigmoid(s[:, 1])], 1)\n    return s.squeeze(1)\n";
  text +=
      "\ndef forward(self, inputs: Dict[str, Tensor]) -> Tensor:\n"
      "    return self.score(self.embed(inputs), inputs[\"group_ptr\"])\n";
  return {writer.helpers() + text, writer.attributes()};
}

}  // namespace foretime::inference
