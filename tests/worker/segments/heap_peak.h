#pragma once

#include <cstdint>
#include <functional>

namespace foretime::testing {

/// Bytes by which the heap rises, at its highest, above what is in use before `work`: of all threads of this process,
/// as malloc_usable_size counts them, so that neither other processes nor what the kernel keeps resident matter. -1 in
/// builds with a sanitizer, which has an allocator of its own.
int64_t heap_growth(const std::function<void()>& work);

}  // namespace foretime::testing
