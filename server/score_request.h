#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "server/batcher.h"
#include "server/http.h"
#include "server/targets.h"

namespace foretime::server {

/// What a request wants scored, and how much of it told. Texts in `work` point into this object and the request.
struct ScoreRequest {
  Work work;
  std::vector<std::string> ids;  // [work.count], or empty
  std::optional<int64_t> top;    // the fastest so many, ranked; 0: all, ranked; absent: all, in their order

  JsonReader reader{"request"};
  std::deque<std::string> kept;  // texts that JSON held as objects
};

/// Candidates of a graph: {"candidates": […], "top": …}, or as application/octet-stream their numbers, int8 layouts or
/// float32 tiles, one candidate after another. Their numbers take no more memory than a body may (JSON need not name
/// all nodes). Throws DataError.
void read_graph_request(const HttpRequest& request, const GraphTarget& target, data::CandidateKind kind,
                        const ServeLimits& limits, ScoreRequest& score);

/// Texts, records or programs: {NAME: […], "top": …} with each text as a string or, where it is JSON, as an object; or,
/// as any other type than application/json, one on each line. Throws DataError.
void read_text_request(const HttpRequest& request, std::string_view name, int64_t most, ScoreRequest& score);

/// The answer: scores in their order, or the fastest ones. `seconds`: [scores], or empty.
std::string score_answer(const ScoreRequest& request, const Scored& scored, const std::vector<double>& seconds);

}  // namespace foretime::server
