#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <ATen/record_function.h>

namespace foretime::testing {

/// Counts what LibTorch computes on this thread while it lives: each operation that does something itself, on a GPU one
/// kernel or a few, but no views and no operations that only call others; and those for whose result the host would
/// wait, were it on a GPU. One at a time.
class OpCounter {
 public:
  OpCounter() {
    active() = this;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
  }
  ~OpCounter() {
    at::removeCallback(handle_);
    active() = nullptr;
  }
  OpCounter(const OpCounter&) = delete;
  OpCounter& operator=(const OpCounter&) = delete;

  int64_t operations() const { return operations_; }
  int64_t waits() const { return waits_; }
  /// `3 aten::addmm, 2 aten::cat, …`.
  std::string list() const {
    std::string text;
    for (const auto& [name, count] : by_name_) text += std::to_string(count) + " " + name + ", ";
    return text;
  }

 private:
  struct Frame {
    std::string name;
    bool within_one = false;  // of those that called it, one is_one
    bool computed = false;    // by something that it called
  };

  static std::string_view short_name(std::string_view name) {
    const auto colons = name.find("::");
    return colons == std::string_view::npos ? name : name.substr(colons + 2);
  }
  static OpCounter*& active() {
    static OpCounter* counter = nullptr;
    return counter;
  }
  static bool is_view(std::string_view name) {
    static const std::set<std::string_view> views = {"view",           "reshape",
                                                     "narrow",         "select",
                                                     "slice",          "unsqueeze",
                                                     "squeeze",        "t",
                                                     "transpose",      "permute",
                                                     "expand",         "expand_as",
                                                     "as_strided",     "detach",
                                                     "alias",          "view_as",
                                                     "contiguous",     "to",
                                                     "flatten",        "_unsafe_view",
                                                     "chunk",          "split",
                                                     "unbind",         "unfold",
                                                     "empty",          "new_empty",
                                                     "empty_like",     "empty_strided",
                                                     "result_type",    "lift_fresh",
                                                     "resolve_conj",   "resolve_neg",
                                                     "set_data",       "resize_",
                                                     "is_leaf",        "output_nr",
                                                     "_version",       "requires_grad_",
                                                     "detach_",        "item",
                                                     "_reshape_alias", "split_with_sizes",
                                                     "numpy_T",        "diagonal",
                                                     "movedim",        "mT",
                                                     "pin_memory",     "is_pinned",
                                                     "unflatten"};
    return views.contains(name);
  }
  /// One kernel on a GPU, whatever else they call on the CPU: conversions of scalars, fills before sums.
  static bool is_one(std::string_view name) {
    static const std::set<std::string_view> ones = {
        "add",   "add_",  "sub",  "sub_", "mul",       "mul_",       "div",       "div_",  "sum",
        "mean",  "pow",   "eq",   "ne",   "ge",        "gt",         "le",        "lt",    "addmm",
        "where", "zeros", "ones", "full", "ones_like", "zeros_like", "clamp_min", "arange"};
    return ones.contains(name);
  }
  static bool host_waits(std::string_view name) {
    static const std::set<std::string_view> waiting = {"_local_scalar_dense", "nonzero", "repeat_interleave",
                                                       "masked_select",       "equal",   "_unique2"};
    return waiting.contains(name);
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto* counter = active();
    if (!counter || std::this_thread::get_id() != counter->thread_) return nullptr;
    auto& open = counter->open_;
    const bool within = !open.empty() && (open.back().within_one || is_one(short_name(open.back().name)));
    open.push_back({function.name(), within});
    return nullptr;
  }
  static void end(const at::RecordFunction&, at::ObserverContext*) {
    auto* counter = active();
    if (!counter || std::this_thread::get_id() != counter->thread_ || counter->open_.empty()) return;
    const auto frame = counter->open_.back();
    counter->open_.pop_back();
    const auto name = short_name(frame.name);
    bool computed = frame.computed;
    if (host_waits(name)) ++counter->waits_;
    // A scalar on the CPU is no work of a GPU.
    const bool works = frame.name.starts_with("aten::") && !is_view(name) && name != "scalar_tensor";
    if (works && !frame.within_one && (!computed || is_one(name))) {
      computed = true;
      ++counter->operations_;
      ++counter->by_name_[frame.name];
    }
    if (computed && !counter->open_.empty()) counter->open_.back().computed = true;
  }

  at::CallbackHandle handle_ = 0;
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<Frame> open_;
  std::map<std::string, int64_t> by_name_;
  int64_t operations_ = 0, waits_ = 0;
};

}  // namespace foretime::testing
