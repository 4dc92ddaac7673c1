#include "worker/run/submission.h"

namespace foretime::worker {

inference::Ranking ranking_of(const worker::GroupEvaluation& group) {
  return {.group = group.group,
          .candidates = group.candidates,
          .scores = group.scores.scores,
          .predicted = group.scores.predicted,
          .levels = group.scores.levels,
          .ids = group.ids};
}

std::string submission_line(const std::string& collection, const worker::GroupEvaluation& group) {
  return submission_line(collection, ranking_of(group));
}

}  // namespace foretime::worker
