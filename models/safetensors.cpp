#include "models/safetensors.h"

#include <algorithm>
#include <cstring>

#include "inference/files/safetensors_file.h"
#include "inference/runtime/references.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

struct TypeCode {
  const char* code;
  torch::ScalarType type;
};
constexpr TypeCode kTypeCodes[] = {{"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
                                   {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
                                   {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
                                   {"BOOL", torch::kBool}};

const char* code_of(const torch::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) throw ModelError("safetensors: tensor {}: undefined", name);
  if (tensor.layout() != torch::kStrided) throw ModelError("safetensors: tensor {}: not a dense tensor", name);
  for (const auto& [code, type] : kTypeCodes)
    if (type == tensor.scalar_type()) return code;
  throw ModelError("safetensors: tensor {}: type {} has no code in the format", name,
                   c10::toString(tensor.scalar_type()));
}

torch::Tensor to_tensor(const inference::StoredArray& array) {
  const auto* known = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                   [&](const TypeCode& type) { return array.type == type.code; });
  auto tensor = torch::empty(array.shape, known->type);  // the reader lets no other type through
  if (!array.bytes.empty()) std::memcpy(tensor.data_ptr(), array.bytes.data(), array.bytes.size());
  return tensor;
}

}  // namespace

std::string serialize_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<torch::Tensor> kept;  // owns the memory that the arrays point to
  inference::NamedArrays arrays;
  for (const auto& [name, tensor] : tensors) {
    const auto* code = code_of(tensor, name);
    const auto& plain = kept.emplace_back(tensor.detach().to(torch::kCPU).contiguous());
    const auto* bytes = plain.nbytes() > 0 ? static_cast<const char*>(plain.data_ptr()) : nullptr;
    arrays.emplace_back(name, inference::StoredArray{code, plain.sizes().vec(), {bytes, plain.nbytes()}});
  }
  try {
    return inference::serialize_arrays(arrays, metadata);
  } catch (const inference::BundleError& error) {
    throw ModelError(error.what());
  }
}

Safetensors parse_safetensors(std::string_view bytes, const std::string& origin) {
  try {
    auto stored = inference::parse_arrays(bytes, origin);
    Safetensors result{{}, std::move(stored.metadata)};
    for (const auto& [name, array] : stored.arrays) result.tensors.emplace(name, to_tensor(array));
    return result;
  } catch (const inference::BundleError& error) {
    throw ModelError(error.what());
  }
}

}  // namespace foretime::models
