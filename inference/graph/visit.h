#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "inference/graph/graph.h"

namespace foretime::inference {

/// Calls f(name, field) for each field of an operation; f(name, field, names) for an enumeration.
template <class Any, class F>
void visit_fields(Any& operation, F&& f) {
  std::visit([&](auto& o) { std::remove_cvref_t<decltype(o)>::fields(o, f); }, operation);
}

/// Calls f for each field of type T, and for each element of the fields that are lists of T.
template <class T, class Any, class F>
void visit_all(Any& operation, F&& f) {
  visit_fields(operation, [&](const char*, auto& field, auto&&...) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, T>) {
      f(field);
    } else if constexpr (std::is_same_v<Field, std::vector<T>>) {
      for (auto& each : field) f(each);
    }
  });
}

}  // namespace foretime::inference
