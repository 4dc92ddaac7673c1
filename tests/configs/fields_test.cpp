#include "configs/fields.h"

#include <set>

#include <gtest/gtest.h>

#include "configs/load.h"
#include "configs/settings.h"

namespace foretime::configs {
namespace {

const void* address_of(const FieldPointer& value) {
  if (const auto* choice = std::get_if<ChoiceField>(&value)) return choice->value;
  if (const auto* list = std::get_if<ChoiceListField>(&value)) return list->list;
  return std::visit(
      [](const auto& pointer) -> const void* {
        if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(pointer)>>) return pointer;
        return nullptr;
      },
      value);
}

TEST(FieldList, PointsToEachMemberOnce) {
  Settings settings;
  const FieldList list = list_fields(settings);
  std::set<const void*> members;
  std::set<std::string> keys;
  for (const Field& field : list.fields) {
    members.insert(address_of(field.value));
    keys.insert(field.key);
    EXPECT_FALSE(field.meaning.empty()) << field.key;
  }
  EXPECT_EQ(members.size(), list.fields.size());
  EXPECT_EQ(keys.size(), list.fields.size());
  EXPECT_EQ(*std::get<int64_t*>(list.field("trainer.steps")->value), settings.trainer.steps);
  EXPECT_EQ(list.field("trainer"), nullptr);
  EXPECT_NE(list.section("trainer.early_stop"), nullptr);
}

TEST(FieldList, KeysComeInDeclarationOrder) {
  const std::vector<std::string> keys = all_keys();
  ASSERT_GE(keys.size(), 60u);
  EXPECT_EQ(keys.front(), "data.format");
  EXPECT_EQ(keys.back(), "run.overwrite");
}

TEST(Bounds, DefaultsAreWithinTheirBounds) {
  Settings settings;
  for (const Field& field : list_fields(settings).fields) {
    EXPECT_EQ(bound_violation(field), "") << field.key;
  }
}

TEST(Bounds, EndsAreOpenOrClosed) {
  EXPECT_FALSE(above(0).allows(0.0));
  EXPECT_TRUE(above(0).allows(1e-300));
  EXPECT_TRUE(at_least(1).allows(1.0));
  EXPECT_FALSE(at_least(1).allows(0.0));
  EXPECT_TRUE(between(0, 1).allows(0.0) && between(0, 1).allows(1.0));
  EXPECT_FALSE(between(0, 1).allows(1.0000001));
  EXPECT_FALSE(above_up_to(0, 1).allows(0.0));
  EXPECT_TRUE(above_up_to(0, 1).allows(1.0));
  EXPECT_TRUE(from_to_below(0, 1).allows(0.0));
  EXPECT_FALSE(from_to_below(0, 1).allows(1.0));
}

TEST(Bounds, TextSaysWhatIsAllowed) {
  EXPECT_EQ(above(0).text(), "> 0");
  EXPECT_EQ(at_least(1).text(), ">= 1");
  EXPECT_EQ(from_to_below(0, 1).text(), "in [0, 1)");
  EXPECT_EQ(above_up_to(0, 1).text(), "in (0, 1]");
  EXPECT_EQ(not_empty().text(), "not empty");
  EXPECT_EQ(Bound().text(), "");
}

}  // namespace
}  // namespace foretime::configs
