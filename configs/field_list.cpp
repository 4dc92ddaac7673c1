#include "configs/field_list.h"

#include <algorithm>

#include "configs/fields.h"

namespace foretime::configs {
namespace {

class Lister {
 public:
  Lister(FieldList& list, std::string prefix) : list_(list), prefix_(std::move(prefix)) {}

  template <class T>
  void operator()(const char* name, T& value, const char* meaning, Bound bound = {}) {
    list_.fields.push_back({prefix_ + name, &value, meaning, std::move(bound)});
  }

  template <class Struct>
  void section(const char* name, Struct& value, const char* meaning) {
    list_.sections.push_back({prefix_ + name, meaning});
    visit_fields(value, Lister(list_, prefix_ + name + "."));
  }

 private:
  FieldList& list_;
  std::string prefix_;
};

template <class Items>
auto find_key(const Items& items, const std::string& key) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.key == key; });
  return found == items.end() ? nullptr : &*found;
}

}  // namespace

const Field* FieldList::field(const std::string& key) const { return find_key(fields, key); }
const Section* FieldList::section(const std::string& key) const { return find_key(sections, key); }

FieldList list_fields(Settings& settings) {
  FieldList list;
  visit_fields(settings, Lister(list, ""));
  return list;
}

}  // namespace foretime::configs
