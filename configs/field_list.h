#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "configs/bounds.h"
#include "configs/settings.h"

/// The visitors of configs/fields.h as a flat list, so that loading and printing are ordinary code and not templates.
namespace foretime::configs {

using FieldPointer = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<std::string>*>;

struct Field {
  std::string key;     // full name: trainer.early_stop.patience
  FieldPointer value;  // into the Settings that the list was made from
  std::string meaning;
  Bound bound;

  /// The part of the key before the last dot.
  std::string section() const { return key.substr(0, key.rfind('.')); }
  std::string name() const { return key.substr(key.rfind('.') + 1); }
};

struct Section {
  std::string key;  // trainer.early_stop
  std::string meaning;
};

/// In declaration order; a section comes before its keys.
struct FieldList {
  std::vector<Field> fields;
  std::vector<Section> sections;

  /// Null where there is none of that name.
  const Field* field(const std::string& key) const;
  const Section* section(const std::string& key) const;
};

/// Points into `settings`, which must outlive the list.
FieldList list_fields(Settings& settings);

}  // namespace foretime::configs
