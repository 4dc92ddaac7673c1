#include "base/printable.h"

namespace foretime {
namespace {

constexpr size_t kPrintedBytes = 80;

}  // namespace

std::string printable(std::string_view name) {
  std::string text(name.substr(0, kPrintedBytes));
  for (char& c : text) {
    if (c <= ' ' || c > '~') c = '?';
  }
  if (name.size() > kPrintedBytes) text += "…";
  return text.empty() ? "without a name" : text;
}

}  // namespace foretime
