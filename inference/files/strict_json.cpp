#include "inference/files/strict_json.h"

#include <string>
#include <unordered_set>
#include <vector>

#include "inference/runtime/references.h"

namespace foretime::inference {
namespace {

using nlohmann::json;

/// Checks a text before it is parsed. nlohmann's own parser with a callback walks an object again at each end of a
/// member, which takes quadratic time.
class BoundsChecker : public nlohmann::json_sax<json> {
 public:
  BoundsChecker(const char* what, const JsonBounds& bounds) : what_(what), bounds_(bounds) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }

  bool key(string_t& name) override {
    auto& names = open_names_.back();
    if (!names.insert(name).second) throw BundleError("{}: the name {} occurs twice", what_, name);
    if (names.size() > bounds_.object_members)
      throw BundleError("{}: an object with more than {} members", what_, bounds_.object_members);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    throw BundleError("{}: not JSON: {}", what_, error.what());
  }

 private:
  bool open() {
    if (open_names_.size() == bounds_.levels)
      throw BundleError("{}: nested deeper than {} levels", what_, bounds_.levels);
    open_names_.emplace_back();
    return true;
  }
  bool close() {
    open_names_.pop_back();
    return true;
  }

  const char* what_;
  const JsonBounds bounds_;
  std::vector<std::unordered_set<std::string>> open_names_;
};

}  // namespace

json parse_strict_json(std::string_view text, const char* what, const JsonBounds& bounds) {
  BoundsChecker checker(what, bounds);
  json::sax_parse(text.begin(), text.end(), &checker);
  return json::parse(text.begin(), text.end());
}

}  // namespace foretime::inference
