#include <fmt/format.h>

#include "data/files/packed.h"
#include "plans/plan_source.h"
#include "plans/symbolic_plan_bytes.h"

// Apart from plan_source.cpp, so that who makes plans of groups in memory links no reader of files.
namespace foretime::plans {

std::shared_ptr<const PlanSource> load_plan_source(const data::GroupHeader& header, const data::Group& group,
                                                   const PlanRequest& request, int64_t prune_hops) {
  if (header.member >= 0 && group.kind == data::CandidateKind::layout && request.sharing != Sharing::none) {
    if (const auto stored = data::load_packed_plan(header, symbolic_plan_key(request, prune_hops))) {
      auto source = std::make_shared<PlanSource>();
      source->request = request;
      source->symbolic = symbolic_plan_from_bytes(stored->span(), group, request,
                                                  fmt::format("{}: {}", header.file.string(), header.name));
      return source;
    }
  }
  return make_plan_source(group, request);
}

}  // namespace foretime::plans
