#include "tests/data/frontends/ansor/golden_states.h"

#include <simdjson.h>

#include "base/error.h"
#include "data/files/line_source.h"
#include "data/frontends/ansor/records/step_json.h"

namespace foretime::testing {
using namespace data;
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

std::string bound(const element& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? std::string(text) : std::to_string(int64_t(value));
}

GoldenStage read_stage(const element& value) {
  GoldenStage stage;
  stage.name = std::string_view(value["name"]);
  stage.input = std::string_view(value["op_type"]) != "compute";
  stage.compute_at = std::string_view(value["compute_at"]);
  array attach;
  if (value["attach"].get(attach) == simdjson::SUCCESS) {
    stage.attach_stage = static_cast<int32_t>(int64_t(attach.at(0)));
    stage.attach_iterator = static_cast<int32_t>(int64_t(attach.at(1)));
  }
  stage.auto_unroll_max_step = int64_t(value["auto_unroll_max_step"]);
  stage.storage_offset = int64_t(value["storage_offset"]);
  const array shape = value["shape"];
  for (const element extent : shape) stage.shape.push_back(int64_t(extent));
  const array iterators = value["iters"];
  for (const element iterator : iterators) {
    GoldenIterator read;
    read.name = std::string_view(iterator["name"]);
    read.minimum = bound(iterator["min"]);
    read.extent = bound(iterator["extent"]);
    read.kind = std::string_view(iterator["kind"]);
    read.annotation = std::string_view(iterator["annotation"]);
    array attached;
    if (iterator["attached_stages"].get(attached) == simdjson::SUCCESS) {
      for (const element other : attached) read.attached.push_back(static_cast<int32_t>(int64_t(other)));
    }
    stage.iterators.push_back(std::move(read));
  }
  return stage;
}

}  // namespace

std::vector<GoldenState> read_golden_states(const std::filesystem::path& file) {
  std::vector<GoldenState> states;
  LineSource lines(file);
  simdjson::dom::parser parser;
  while (const auto line = lines.next()) {
    const element root = parser.parse(line->text.data(), line->text.size());
    GoldenState state;
    state.line = int64_t(root["line"]);
    state.workload_key = std::string_view(root["workload_key"]);
    state.printed = std::string_view(root["printed"]);
    std::string_view dag;
    if (root["current_dag"].get(dag) == simdjson::SUCCESS) state.dag_text = dag;
    read_steps(array(root["steps"]), state.steps);
    const array stages = root["stages"];
    for (const element stage : stages) state.stages.push_back(read_stage(stage));
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace foretime::testing
