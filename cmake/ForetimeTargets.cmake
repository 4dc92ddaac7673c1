# One precompiled header for everything that includes LibTorch: it takes a quarter of a minute, so it is made once.
if(TARGET foretime_torch)
  add_library(foretime_torch_pch OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/cmake/pch.cpp)
  target_link_libraries(foretime_torch_pch PRIVATE foretime_torch foretime_warnings)
  target_precompile_headers(foretime_torch_pch PRIVATE <torch/types.h>)
endif()

# The sources of a target are compiled as one, or as PARTS: most of the time goes into headers, their templates, and the
# same inline functions again in each object. Names in anonymous namespaces must differ within a target, which presets
# without FORETIME_UNITY do not notice. FORETIME_ALONE: sources that are compiled one by one all the same
# (tools/check/mutate.py), as paths from the project's root.
function(foretime_unity name parts)
  if(FORETIME_UNITY)
    get_target_property(sources ${name} SOURCES)
    list(LENGTH sources count)
    math(EXPR batch "(${count} + ${parts} - 1) / ${parts}")
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    foreach(source IN LISTS sources)
      if("${folder}/${source}" IN_LIST FORETIME_ALONE)
        set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Types of anonymous namespaces as members are suspect in headers, which GCC takes the joined sources for.
      target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# All files PATTERN in FOLDERS ("." for the folder of the CMake file), and SOURCES.
function(foretime_sources result pattern)
  cmake_parse_arguments(arg "" "" "FOLDERS;SOURCES" ${ARGN})
  set(sources)
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/${pattern})
    list(APPEND sources ${found})
  endforeach()
  set(${result} ${sources} ${arg_SOURCES} PARENT_SCOPE)
endfunction()

# foretime_library(NAME [TORCH] [FAST | KERNELS] [PARTS n] [FOLDERS ...] [SOURCES ...] LINK ...): a library of all
# sources in FOLDERS ("." for the folder of the CMake file), and of SOURCES; headers are included from the project's
# root. TORCH: the sources include LibTorch. FAST: reading, packing and scoring wait for it (-O2); KERNELS: loops over
# numbers that are worth vectorising (-O3).
function(foretime_library name)
  cmake_parse_arguments(arg "TORCH;FAST;KERNELS" "PARTS" "FOLDERS;SOURCES;LINK" ${ARGN})
  foretime_sources(sources *.cpp FOLDERS ${arg_FOLDERS} SOURCES ${arg_SOURCES})
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE foretime_warnings)
  if(arg_TORCH)
    target_link_libraries(${name} PUBLIC foretime_torch)
    # GCC 13 and later have options for processors that depend on -O, and refuse a header compiled with others.
    if(NOT ((arg_FAST OR arg_KERNELS) AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION
      VERSION_GREATER_EQUAL 13))
      target_precompile_headers(${name} REUSE_FROM foretime_torch_pch)
    endif()
  endif()
  if(arg_FAST)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O2>)
  elseif(arg_KERNELS)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  if(NOT arg_PARTS)
    set(arg_PARTS 1)
  endif()
  foretime_unity(${name} ${arg_PARTS})
endfunction()

# foretime_test(NAME [TORCH] [WAITS] [FOLDERS ...] [SOURCES ...] LINK ...): a GoogleTest binary of all *_test.cpp in
# FOLDERS, and of SOURCES; one ctest entry per binary. ctest counts halves of a core: a test that computes takes two.
# WAITS: it waits for processes and clocks for most of its time, and takes one, as tests of programs do.
function(foretime_test name)
  cmake_parse_arguments(arg "TORCH;WAITS" "" "FOLDERS;SOURCES;LINK" ${ARGN})
  foretime_sources(sources *_test.cpp FOLDERS ${arg_FOLDERS} SOURCES ${arg_SOURCES})
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} foretime_golden foretime_warnings GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE FORETIME_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE foretime_torch)
    target_precompile_headers(${name} REUSE_FROM foretime_torch_pch)
  elseif(FORETIME_UNITY)
    target_link_libraries(${name} PRIVATE OpenMP::OpenMP_CXX)
    target_precompile_headers(${name} REUSE_FROM foretime_test_pch)
  endif()
  foretime_unity(${name} 1)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_WAITS)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# foretime_python_tests(PREFIX [VARIABLE=VALUE ...]): one ctest entry PREFIXtopic for each topic_test.py in the folder
# of the CMake file, with these variables in its environment. Sets foretime_python_test_names.
function(foretime_python_tests prefix)
  set(names)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *_test.py)
  foreach(file IN LISTS files)
    string(REGEX REPLACE "_test\\.py$" "" topic ${file})
    add_test(NAME ${prefix}${topic} COMMAND ${FORETIME_SYSTEM_PYTHON} -m unittest -v ${topic}_test
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    list(APPEND names ${prefix}${topic})
  endforeach()
  set_tests_properties(${names} PROPERTIES ENVIRONMENT "${ARGN};PYTHONDONTWRITEBYTECODE=1")
  set(foretime_python_test_names ${names} PARENT_SCOPE)
endfunction()
