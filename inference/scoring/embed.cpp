#include "inference/scoring/embed.h"

#include <algorithm>
#include <utility>

#include "base/threads.h"
#include "data/graphs/group.h"
#include "plans/plan_source.h"

namespace foretime::inference {
namespace {

// Pieces are small enough for several threads to have some, and for a piece's values to stay in a core's caches; plans
// that share states gain by more candidates.
constexpr int64_t kPieceStates = 8192;
constexpr int64_t kFirstShared = 128, kMostShared = 1024;

/// Pieces of a list of candidates: the first one, whose plan tells how large the others may be, and the others.
class Pieces {
 public:
  Pieces(const Model& model, const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
         std::span<const int64_t> ids)
      : model_(model),
        group_(group),
        source_(source),
        ids_(ids),
        shares_(source->symbolic != nullptr),
        limit_(shares_ ? model.options().max_states : std::min(model.options().max_states, kPieceStates)),
        size_(group, *source, limit_) {
    result_.columns = model.spec().graph.embedded_columns;
    result_.rows = static_cast<int64_t>(ids.size());
    result_.values.resize(static_cast<size_t>(result_.size()));
  }

  /// [ids, embedded columns]
  inference::Matrix embed() && {
    size_t done = 0;
    if (shares_ && !ids_.empty()) {
      inference::Workspace workspace;
      const OneOpenMpThread guard;
      done = std::min(ids_.size(), static_cast<size_t>(std::min(size_.candidates(), kFirstShared)));
      size_.observe(embed_piece(0, done, workspace));
    }
    const auto step = static_cast<size_t>(shares_ ? std::min(size_.candidates(), kMostShared) : size_.candidates());
    const size_t parts = (ids_.size() - done + step - 1) / step;
    parallel_for(static_cast<int64_t>(parts), model_.options().threads, [&] {
      return [&, workspace = std::make_shared<inference::Workspace>()](int64_t part) {
        const size_t first = done + static_cast<size_t>(part) * step;
        embed_piece(first, std::min(step, ids_.size() - first), *workspace);
      };
    });
    return std::move(result_);
  }

 private:
  /// Embeds ids_[first …] and returns the plan, halving pieces whose plans are far too large: what candidates share is
  /// only known when their plan is there.
  plans::MessagePlan embed_piece(size_t first, size_t count, inference::Workspace& workspace) {
    plans::PlanBuilder builder(source_->request);
    builder.add(group_, ids_.subspan(first, count), source_);
    auto plan = std::move(builder).build();
    if (count > 1 && plans::PieceSize::load(plan) > 2 * limit_) {
      plan = {};
      embed_piece(first, count / 2, workspace);
      return embed_piece(first + count / 2, count - count / 2, workspace);
    }
    auto embedded = model_.executor().embed(plan, workspace);
    std::copy_n(embedded.values.begin(), embedded.size(), result_.row(static_cast<int64_t>(first)));
    workspace.give(std::move(embedded.values));
    return plan;
  }

  const Model& model_;
  const data::Group& group_;
  const std::shared_ptr<const plans::PlanSource>& source_;
  std::span<const int64_t> ids_;
  bool shares_;
  int64_t limit_;
  plans::PieceSize size_;
  inference::Matrix result_;
};

}  // namespace

std::vector<float> score_candidates(const Model& model, const data::Group& group,
                                    const std::shared_ptr<const plans::PlanSource>& source,
                                    std::span<const int64_t> candidates) {
  if (candidates.empty()) return {};
  const auto distinct = data::distinct_candidates(group, candidates);
  auto embedded = Pieces(model, group, source, distinct.ids).embed();
  if (distinct.ids.size() != candidates.size()) {
    // A configuration that stands there twice is two candidates to a model that compares them.
    inference::Matrix all{static_cast<int64_t>(candidates.size()), embedded.columns, {}};
    all.values.resize(static_cast<size_t>(all.size()));
    for (size_t i = 0; i < candidates.size(); ++i)
      std::copy_n(embedded.row(distinct.place[i]), embedded.columns, all.row(static_cast<int64_t>(i)));
    embedded = std::move(all);
  }
  const OneOpenMpThread guard;
  inference::Workspace workspace;
  const int64_t group_ptr[] = {0, embedded.rows};
  return model.executor().score(std::move(embedded), group_ptr, workspace);
}

}  // namespace foretime::inference
