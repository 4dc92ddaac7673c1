#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "base/error.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {
namespace {

constexpr uint64_t kVersion = 2;  // version of the format and of the computation of hashes

/// Visits all that is written, in order: `visit(array)` and `visit.number(value)`.
template <class Plan, class Visit>
void visit_parts(Plan& parts, Visit& visit) {
  visit.resize(parts);
  for (auto& part : parts) {
    visit.number(part.pool);
    visit.number(part.class_of);
    visit(part.members);
    visit(part.counts);
  }
}

template <class Plan, class Visit>
void visit_plan(Plan& s, Visit& visit) {
  visit.number(s.nodes);
  visit.number(s.pools);
  visit(s.column);
  visit(s.first_column);
  visit(s.row_hash);
  visit(s.inputs.hash);
  visit(s.inputs.graph_node);
  visit(s.classes.member_ptr);
  visit(s.classes.members);
  visit.resize(s.levels);
  for (auto& level : s.levels) {
    auto& fixed = level.fixed;
    visit(fixed.hash);
    visit(fixed.input);
    visit(fixed.layout_row);
    visit(fixed.self);
    visit(fixed.row_ptr);
    visit(fixed.columns);
    visit(fixed.values);
    auto& varying = level.varying;
    visit(varying.class_of);
    visit(varying.input);
    visit(varying.base);
    visit(varying.self);
    visit(varying.row_ptr);
    visit(varying.columns);
    visit(varying.values);
  }
  visit_parts(s.node_parts, visit);
  visit_parts(s.configurable_parts, visit);
  visit_parts(s.tied_parts, visit);
}

class Writer {
 public:
  template <class T>
  void operator()(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    number(std::ssize(values));
    append(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  void resize(const std::vector<T>& values) {
    number(std::ssize(values));
  }
  void number(int64_t value) { append(&value, sizeof value); }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  void append(const void* data, size_t count) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + count);
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
  }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string origin) : bytes_(bytes), origin_(std::move(origin)) {}

  [[noreturn]] void fail(const std::string& what) const { throw DataError("{}: stored plan: {}", origin_, what); }
  template <class T>
  void operator()(std::vector<T>& values) {
    const uint64_t count = count_of(sizeof(T));
    values.resize(count);
    take(values.data(), count * sizeof(T));
  }
  /// Structs that are visited one by one: each takes eight bytes at the least.
  template <class T>
  void resize(std::vector<T>& values) {
    values.resize(static_cast<size_t>(count_of(sizeof(int64_t))));
  }
  template <class T>
  void number(T& value) {
    int64_t wide = 0;
    take(&wide, sizeof wide);
    value = static_cast<T>(wide);
    if (static_cast<int64_t>(value) != wide) fail(fmt::format("a number of {} is out of range", wide));
  }
  void end() const {
    if (!bytes_.empty()) fail(fmt::format("{} bytes too many", bytes_.size()));
  }

 private:
  int64_t count_of(size_t size) {
    int64_t count = 0;
    take(&count, sizeof count);
    if (count < 0 || static_cast<uint64_t>(count) > bytes_.size() / size)
      fail(fmt::format("an array of {} in the last {} bytes", count, bytes_.size()));
    return count;
  }
  void take(void* to, size_t count) {
    const size_t padded = (count + 7) / 8 * 8;
    if (padded > bytes_.size()) fail(fmt::format("cut off: {} bytes left, expected {}", bytes_.size(), padded));
    if (count > 0) std::memcpy(to, bytes_.data(), count);
    bytes_ = bytes_.subspan(padded);
  }
  std::span<const std::byte> bytes_;
  std::string origin_;
};

/// All that planning relies on.
class Checker {
 public:
  Checker(const SymbolicPlan& symbolic, const data::Group& group, const Reader& reader)
      : s_(symbolic), group_(group), reader_(reader) {}

  void check() const {
    const auto& layout = group_.layout;
    expect(s_.nodes > 0 && s_.nodes <= group_.graphs.nodes(), "nodes");
    expect(s_.pools >= 1 && s_.pools <= s_.nodes, "pools");
    expect(size(s_.row_hash) == layout.rows.size() / data::kLayoutFeatures, "layout rows");
    within(s_.column, 0, layout.configurable(), "column");
    within(s_.first_column, 0, s_.configurable(), "first_column");
    expect(s_.inputs.hash.size() == s_.inputs.graph_node.size(), "inputs");
    within(s_.inputs.graph_node, 0, group_.graphs.nodes(), "graph_node");
    check_classes();
    expect(size(s_.levels) == s_.request.layers + 1, "levels");
    for (size_t l = 0; l < s_.levels.size(); ++l) l == 0 ? check_first(s_.levels[0]) : check_level(l);
    check_parts(s_.node_parts);
    check_parts(s_.configurable_parts);
    check_parts(s_.tied_parts);
  }

 private:
  template <class T>
  static int64_t size(const std::vector<T>& values) {
    return std::ssize(values);
  }
  void expect(bool right, const char* what) const {
    if (!right) reader_.fail(fmt::format("{}: not those of group {}", what, group_.name));
  }
  template <class T>
  void within(const std::vector<T>& values, int64_t low, int64_t high, const char* what) const {
    for (const T value : values) expect(value >= low && value < high, what);
  }

  void check_classes() const {
    const auto& classes = s_.classes;
    expect(classes.count() > s_.configurable(), "classes");
    check_row_ptr(classes.member_ptr, classes.count(), size(classes.members), "members of classes");
    for (int64_t q = 0; q < classes.count(); ++q) {
      const auto first = classes.member_ptr[q], last = classes.member_ptr[q + 1];
      expect(q < s_.configurable() || q == classes.everything() || first < last, "a class without members");
      for (int64_t i = first; i < last; ++i) {
        const int32_t member = classes.members[i];
        expect(member >= 0 && member < q, "member of a class");
      }
    }
  }
  void check_row_ptr(const std::vector<int64_t>& row_ptr, int64_t rows, int64_t entries, const char* what) const {
    expect(size(row_ptr) == rows + 1 && row_ptr.front() == 0 && row_ptr.back() == entries, what);
    for (size_t i = 1; i < row_ptr.size(); ++i) expect(row_ptr[i - 1] <= row_ptr[i], what);
  }
  void check_first(const SymbolicPlan::Level& level) const {
    const auto& fixed = level.fixed;
    expect(fixed.input.size() == fixed.hash.size() && fixed.layout_row.size() == fixed.hash.size(), "level 0");
    within(fixed.input, 0, size(s_.inputs.hash), "input");
    within(fixed.layout_row, -1, size(s_.row_hash), "layout row");
    const auto& varying = level.varying;
    expect(varying.input.size() == varying.class_of.size() && varying.base.size() == varying.class_of.size() &&
               s_.first_column.size() == varying.class_of.size(),
           "level 0");
    within(varying.input, 0, size(s_.inputs.hash), "input");
    for (size_t i = 0; i < varying.class_of.size(); ++i) {
      // Its candidates are looked up by the first of each block, whose code must be the block's.
      expect(varying.class_of[i] == s_.first_column[i] || varying.class_of[i] == s_.classes.everything(), "class");
    }
  }
  void check_level(size_t l) const {
    const auto& level = s_.levels[l];
    const auto& below = s_.levels[l - 1];
    const auto relations = size(s_.request.relations);
    const auto& fixed = level.fixed;
    expect(fixed.self.size() == fixed.hash.size(), "own states");
    within(fixed.self, 0, below.fixed.states(), "own state");
    check_row_ptr(fixed.row_ptr, relations * fixed.states(), size(fixed.columns), "messages");
    expect(fixed.columns.size() == fixed.values.size(), "weights");
    within(fixed.columns, 0, below.fixed.states(), "message");
    const auto& varying = level.varying;
    expect(varying.self.size() == varying.class_of.size() && varying.base.size() == varying.class_of.size(), "nodes");
    within(varying.class_of, 0, s_.classes.count(), "class");
    within(varying.self, -below.fixed.states(), below.varying.nodes(), "own state");
    check_row_ptr(varying.row_ptr, relations * varying.nodes(), size(varying.columns), "messages");
    expect(varying.columns.size() == varying.values.size(), "weights");
    within(varying.columns, -below.fixed.states(), below.varying.nodes(), "message");
  }
  void check_parts(const std::vector<SymbolicPlan::Part>& parts) const {
    const auto& last = s_.levels.back();
    int32_t pool = 0;
    for (const auto& part : parts) {
      expect(part.pool >= pool && part.pool < s_.pools, "pools of the readout");
      pool = part.pool;
      const bool fixed = part.class_of < 0;
      expect(part.class_of >= -1 && part.class_of < s_.classes.count(), "class of the readout");
      within(part.members, 0, fixed ? last.fixed.states() : last.varying.nodes(), "member of the readout");
      expect(part.counts.size() == part.members.size(), "counts of the readout");
      for (const int32_t member : part.members)
        expect(fixed || last.varying.class_of[member] == part.class_of, "class of a member");
    }
  }

  const SymbolicPlan& s_;
  const data::Group& group_;
  const Reader& reader_;
};

}  // namespace

uint64_t symbolic_plan_key(const PlanRequest& request, int64_t prune_hops) {
  std::vector<int64_t> fields = {static_cast<int64_t>(kVersion), request.layers, static_cast<int64_t>(request.sharing),
                                 kClassLimit};
  if (request.collections) fields.push_back(1);
  if (request.tied) fields.push_back(2);
  for (const RelationSpec& relation : request.relations) {
    fields.insert(fields.end(), {static_cast<int64_t>(relation.direction), static_cast<int64_t>(relation.norm),
                                 relation.self_loop ? 1 : 0});
  }
  // Only where there is pruning, so that plans that were packed before it keep their key; -1 is no relation's field.
  if (prune_hops >= 0) fields.insert(fields.end(), {-1, prune_hops});
  return hash_bytes(std::as_bytes(std::span<const int64_t>(fields)), kVersion).low;
}

std::vector<std::byte> to_bytes(const SymbolicPlan& symbolic) {
  Writer writer;
  visit_plan(symbolic, writer);
  return std::move(writer).take();
}

std::shared_ptr<const SymbolicPlan> symbolic_plan_from_bytes(std::span<const std::byte> bytes, const data::Group& group,
                                                             const PlanRequest& request, const std::string& origin) {
  Reader reader(bytes, origin);
  auto symbolic = std::make_shared<SymbolicPlan>();
  symbolic->request = request;
  visit_plan(*symbolic, reader);
  reader.end();
  Checker(*symbolic, group, reader).check();
  return symbolic;
}

}  // namespace foretime::plans
