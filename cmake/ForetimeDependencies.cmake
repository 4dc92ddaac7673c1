# Every third-party package, each behind an imported target. First those of libforetime, then those of the programs.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)  # before 0.8
endif()
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
# libzip's CMake package names tools that Debian ships separately; its pkg-config file does not.
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
# ISA-L inflates several times faster than zlib.
pkg_check_modules(libisal REQUIRED IMPORTED_TARGET libisal)
# xxHash is compiled into what includes it (base/checksum.h).
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash INTERFACE IMPORTED)
target_include_directories(xxhash INTERFACE ${XXHASH_INCLUDE_DIR})
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(METIS REQUIRED)
find_package(simdjson REQUIRED)
find_package(Protobuf REQUIRED)
if(FORETIME_LIBRARY_ONLY)
  return()
endif()

include(ForetimeTorch)
find_package(MPI REQUIRED COMPONENTS C)
find_package(Boost 1.74 REQUIRED CONFIG)  # headers only; CMake 3.30 and later have no module of their own
find_package(spdlog REQUIRED)
pkg_check_modules(fasttext REQUIRED IMPORTED_TARGET fasttext)
if(FORETIME_ACCEPTANCE_ONLY)
  return()
endif()
find_package(CLI11 REQUIRED)
pkg_check_modules(xgboost REQUIRED IMPORTED_TARGET xgboost)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
# It asks for 64-bit file offsets, which 64-bit systems have anyway; a definition more makes the precompiled header
# unusable.
set_target_properties(PkgConfig::hiredis PROPERTIES INTERFACE_COMPILE_OPTIONS "")
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(CURL 7.86 REQUIRED)

if(FORETIME_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(FORETIME_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
