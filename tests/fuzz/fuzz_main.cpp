/// A libFuzzer program of one target (FORETIME_FUZZ_TARGET, without quotes).
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  foretime::fuzz::FORETIME_FUZZ_TARGET({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
