// What TVM's Python does not tell of a state: foretime.attached_stages gives [stage, stage that it is attached to,
// iterator] of each attached stage, foretime.stage_attributes [auto_unroll_max_step, storage_offset] of each stage. Of tools/tuner/measure/golden_states.py:
//   g++ -std=c++17 -O1 -fPIC -shared -o attached_stages.so attached_stages.cc -I$TVM/include -I$TVM/3rdparty/dmlc-core/include \
//     -I$TVM/3rdparty/dlpack/include -DDMLC_USE_LOGGING_LIBRARY='<tvm/runtime/logging.h>'
#include <tvm/auto_scheduler/loop_state.h>
#include <tvm/runtime/registry.h>

TVM_REGISTER_GLOBAL("foretime.attached_stages").set_body_typed([](tvm::auto_scheduler::State state) {
  tvm::Array<tvm::Array<tvm::Integer>> found;
  for (const auto& [stage, iterator] : state->attach_map->stage_to_attach_iter)
    found.push_back({tvm::Integer(stage), tvm::Integer(iterator.first), tvm::Integer(iterator.second)});
  return found;
});

TVM_REGISTER_GLOBAL("foretime.stage_attributes").set_body_typed([](tvm::auto_scheduler::State state) {
  tvm::Array<tvm::Array<tvm::Integer>> found;
  for (const auto& stage : state->stages)
    found.push_back({tvm::Integer(stage->attrs.auto_unroll_max_step), tvm::Integer(stage->attrs.storage_offset)});
  return found;
});
