#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "inference/capi/foretime.h"
#include "inference/scoring/graph_scorer.h"
#include "inference/scoring/model.h"
#include "inference/scoring/program_scorer.h"

/// Objects that the handles of the C interface point to, and the conversion of exceptions to statuses.
struct foretime_model {
  std::shared_ptr<const foretime::inference::Model> model;
};
struct foretime_graph {
  foretime::inference::GraphScorer scorer;
};
struct foretime_workload {
  foretime::inference::WorkloadScorer scorer;
};

namespace foretime::capi {

/// Reports an argument that no model accepts, such as a null pointer.
class Invalid : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Sets the text of this thread's foretime_last_error() to a copy of `message` and returns `status`.
foretime_status note(foretime_status status, const char* message) noexcept;

/// Runs a call. Returns FORETIME_OK, or the status of the thrown exception, whose message is stored by `note`.
template <class Work>
foretime_status guarded(Work&& work) noexcept {
  try {
    work();
    return FORETIME_OK;
  } catch (const Invalid& error) {
    return note(FORETIME_INVALID_ARGUMENT, error.what());
  } catch (const FileError& error) {
    return note(FORETIME_FILE_ERROR, error.what());
  } catch (const inference::BundleError& error) {
    return note(FORETIME_BAD_BUNDLE, error.what());
  } catch (const DataError& error) {
    return note(FORETIME_BAD_INPUT, error.what());
  } catch (const inference::WrongKind& error) {
    return note(FORETIME_WRONG_KIND, error.what());
  } catch (const std::bad_alloc&) {
    return note(FORETIME_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return note(FORETIME_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return note(FORETIME_INTERNAL_ERROR, error.what());
  } catch (...) {
    return note(FORETIME_INTERNAL_ERROR, "an exception of unknown type");
  }
}

/// Throws Invalid, naming the argument, if `pointer` is null.
void expect_pointer(const void* pointer, const char* name);
/// Throws Invalid, naming the argument, if `value` is not between `least` and `most`.
void expect_range(int64_t value, int64_t least, int64_t most, const char* name);

}  // namespace foretime::capi
