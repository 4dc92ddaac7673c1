# Warnings, sanitizers and the compiler cache.
add_library(foretime_warnings INTERFACE)
target_compile_options(foretime_warnings INTERFACE -Wall -Wextra $<$<BOOL:${FORETIME_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What the optimiser believes of inlined library code changes with every release of GCC, and is often wrong: shown,
  # not fatal.
  target_compile_options(foretime_warnings INTERFACE -Wno-error=array-bounds -Wno-error=stringop-overflow
    -Wno-error=restrict
                         -Wno-error=free-nonheap-object -Wno-error=maybe-uninitialized)
endif()

# Release keeps line numbers out of the way of the compile time: no -g. Libraries whose speed counts ask for more (FAST,
# KERNELS).
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's garbage collector walks the whole precompiled header each time: it may wait until there is a GB of garbage.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()

set(FORETIME_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")
if(FORETIME_SANITIZE)
  add_compile_options(-fsanitize=${FORETIME_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FORETIME_SANITIZE})
endif()

if(FORETIME_FUZZ)
  # What AddressSanitizer alone does not see: indices past a vector's size, and memory between its size and its
  # capacity.
  add_compile_definitions(_GLIBCXX_ASSERTIONS _GLIBCXX_SANITIZE_VECTOR)
endif()

find_program(FORETIME_CCACHE ccache)
if(FORETIME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers are only cacheable with these two relaxations (ccache manual, "Precompiled headers").
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${FORETIME_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
