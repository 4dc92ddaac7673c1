#include "inference/graph/plan_matrices.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "inference/error.h"

namespace foretime::inference {
namespace {

using Kind = SparseMatrix::Kind;

SparseMatrix gather(const std::vector<int32_t>& index, int64_t columns) {
  return {
      .kind = Kind::gather, .rows = static_cast<int64_t>(index.size()), .columns = columns, .column_of = index.data()};
}

SparseMatrix owned_gather(std::vector<int32_t> index, int64_t columns) {
  const auto kept = std::make_shared<const std::vector<int32_t>>(std::move(index));
  auto result = gather(*kept, columns);
  result.owner = kept;
  return result;
}

SparseMatrix csr(const plans::CsrMatrix& source) {
  SparseMatrix result{.rows = source.rows,
                      .columns = source.cols,
                      .row_ptr = source.row_ptr.data(),
                      .column_of = source.columns.data()};
  if (std::any_of(source.values.begin(), source.values.end(), [](double value) { return value != 1.0; })) {
    const auto kept = std::make_shared<const std::vector<float>>(source.values.begin(), source.values.end());
    result.values = kept->data();
    result.owner = kept;
  }
  return result;
}

bool is_identity(const std::vector<int32_t>& self, int64_t below) {
  if (static_cast<int64_t>(self.size()) != below) return false;
  for (int64_t i = 0; i < below; ++i) {
    if (self[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

/// Takes `prefix` and the number behind it off the front of `name`.
std::optional<size_t> numbered(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto digits = name.substr(prefix.size());
  size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) return std::nullopt;
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  return value;
}

}  // namespace

PlanMatrices::PlanMatrices(const plans::MessagePlan& plan, bool statements) : plan_(plan) {
  if (statements) parts_ = statement_parts(plan);
}

const SparseMatrix& PlanMatrices::matrix(const std::string& name) {
  auto& known = matrices_[name];
  if (!known) known = std::make_unique<SparseMatrix>(make(name));
  return *known;
}

void PlanMatrices::add(const std::string& name, SparseMatrix matrix) {
  matrices_[name] = std::make_unique<SparseMatrix>(std::move(matrix));
  pools_.erase(name);
}

const Pool& PlanMatrices::pool(const std::string& name) {
  const auto found = pools_.find(name);
  if (found != pools_.end()) return found->second;
  Pool result;
  const auto stages = [&](const plans::PlanPool& source) {
    for (size_t i = 0; i < source.stages.size(); ++i) {
      const auto stage = fmt::format("{}.{}", name, i);
      add(stage, csr(source.stages[i]));
      result.stages.push_back(&matrix(stage));
    }
    if (source.stages.empty()) throw BundleError(fmt::format("message plan: pool {}: no stages", name));
  };
  if (name == "nodes") {
    stages(plan_.readout.nodes);
  } else if (name == "configurable") {
    stages(plan_.readout.configurable);
  } else if (name == "tied") {
    stages(plan_.readout.tied);
  } else {
    result.stages.push_back(&matrix(name));
  }
  for (const SparseMatrix* stage : result.stages) {
    std::vector<double> sums(static_cast<size_t>(stage->rows));
    for (size_t r = 0; r < sums.size(); ++r) {
      const int64_t first = stage->row_ptr ? stage->row_ptr[r] : static_cast<int64_t>(r);
      const int64_t last = stage->row_ptr ? stage->row_ptr[r + 1] : first + 1;
      for (int64_t e = first; e < last; ++e) {
        const double factor =
            result.counts.empty() ? 1.0 : static_cast<double>(result.counts[static_cast<size_t>(stage->column_of[e])]);
        sums[r] += (stage->values ? static_cast<double>(stage->values[e]) : 1.0) * factor;
      }
    }
    result.counts.assign(sums.begin(), sums.end());
  }
  return pools_.emplace(name, std::move(result)).first->second;
}

SparseMatrix PlanMatrices::make(const std::string& name) {
  const auto types = [](const std::vector<uint8_t>& of_nodes, int64_t count) {
    return owned_gather(std::vector<int32_t>(of_nodes.begin(), of_nodes.end()), count);
  };
  if (name == "node_types") return types(plan_.node_types, 256);
  if (name == "collections" && !plan_.node_collections.empty())
    return types(plan_.node_collections, data::kCollections);
  if (name == "candidate_of") {
    // Of plans in which each state of the last level is of one candidate.
    const auto& of = plan_.readout.nodes.stages.front();
    std::vector<int32_t> candidate(static_cast<size_t>(of.cols), -1);
    for (int64_t row = 0; row < of.rows; ++row) {
      for (auto e = static_cast<size_t>(of.row_ptr[static_cast<size_t>(row)]);
           e < static_cast<size_t>(of.row_ptr[static_cast<size_t>(row) + 1]); ++e)
        candidate[static_cast<size_t>(of.columns[e])] = static_cast<int32_t>(row);
    }
    if (plan_.readout.nodes.stages.size() > 1 || std::find(candidate.begin(), candidate.end(), -1) != candidate.end() ||
        of.columns.size() != candidate.size())
      throw BundleError("message plan: candidates share states, expected a state for each node and candidate");
    return owned_gather(std::move(candidate), of.rows);
  }
  std::string_view rest = name;
  if (const auto number = numbered(rest, "level."); number && *number < plan_.levels.size()) {
    const auto& level = *plan_.levels[*number];
    if (rest == ".node") return gather(level.node, plan_.nodes());
    const auto layout_rows = static_cast<int64_t>(plan_.layout_rows.size()) / data::kLayoutFeatures;
    if (rest == ".layout_row") {
      if (level.layout_row.empty())
        return {.kind = Kind::zero, .rows = level.states(), .columns = std::max<int64_t>(1, layout_rows)};
      return gather(level.layout_row, layout_rows);
    }
    if (rest == ".candidate" && !level.candidate.empty()) return gather(level.candidate, plan_.candidates());
  }
  rest = name;
  if (const auto number = numbered(rest, "layer."); number && *number < plan_.layers.size()) {
    const auto& layer = *plan_.layers[*number];
    const int64_t below = plan_.levels[*number]->states();
    if (rest == ".self") {
      if (is_identity(layer.self, below)) return {.kind = Kind::identity, .rows = below, .columns = below};
      return gather(layer.self, below);
    }
    if (const auto relation = numbered(rest, ".relation.");
        relation && rest.empty() && *relation < layer.relations.size())
      return csr(layer.relations[*relation]);
  }
  if (parts_) {
    if (name == "statements") return gather(parts_->statements, plan_.nodes());
    if (name == "loops") return gather(parts_->loops, plan_.nodes());
    if (name == "loops_of") return csr(parts_->loops_of);
    if (name == "innermost") return csr(parts_->innermost);
    if (name == "second") return csr(parts_->second);
    if (name == "statements_of") return csr(parts_->statements_of);
    if (name == "program_of") {
      std::vector<int32_t> program(parts_->statements.size());
      const auto& of = parts_->statements_of;
      for (int64_t row = 0; row < of.rows; ++row) {
        for (auto e = static_cast<size_t>(of.row_ptr[static_cast<size_t>(row)]);
             e < static_cast<size_t>(of.row_ptr[static_cast<size_t>(row) + 1]); ++e)
          program[static_cast<size_t>(of.columns[e])] = static_cast<int32_t>(row);
      }
      return owned_gather(std::move(program), of.rows);
    }
    rest = name;
    if (const auto slot = numbered(rest, "access."); slot && rest.empty() && *slot < parts_->accesses.size())
      return csr(parts_->accesses[*slot]);
  }
  throw BundleError(fmt::format("form: matrix '{}': not in the message plan", name));
}

}  // namespace foretime::inference
