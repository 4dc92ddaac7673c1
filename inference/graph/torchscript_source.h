#pragma once

#include <map>
#include <string>

#include "inference/graph/form.h"

namespace foretime::inference {

/// A form as the methods of a TorchScript module, generated from its list of operations:
///   embed(inputs: Dict[str, Tensor]) -> Tensor            [candidates, columns]
///   score(embedded: Tensor, group_ptr: Tensor) -> Tensor  [candidates]
///   forward(inputs: Dict[str, Tensor]) -> Tensor          [candidates]; lower is faster
/// `inputs` are the arrays of a message plan as `foretime bundle inputs` writes them (docs/bundle.md). Weights are
/// attributes of the module, under the names of `attributes`.
struct TorchScriptSource {
  std::string text;
  std::map<std::string, std::string> attributes;  // of the module → weight of the bundle
};

TorchScriptSource torchscript_source(const inference::Form& form);

}  // namespace foretime::inference
