#include <initializer_list>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/launch_view.h"

namespace foretime::cli {
namespace {

/// What is found where these files are mapped, with memory of no file between them.
std::string found_among(std::initializer_list<const char*> files) {
  std::stringstream maps;
  for (const char* file : files)
    maps << "7f10c2400000-7f10c2428000 r--p 00000000 fe:00 1049                       " << file << "\n"
         << "7f10c25f0000-7f10c25fd000 rw-p 00000000 00:00 0 \n";
  return mapped_blas(maps.str());
}

TEST(MappedBlas, IsTheCpusAlsoBesideCudas) {
  constexpr auto kTorch = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.2.6.0";
  constexpr auto kCublas = "/usr/lib/x86_64-linux-gnu/libcublasLt.so.12.4.5.8";
  constexpr auto kOpenblas = "/usr/lib/x86_64-linux-gnu/openblas-openmp/liblapack.so.3";
  EXPECT_EQ(found_among({kTorch, kOpenblas}), kOpenblas);
  EXPECT_EQ(found_among({kCublas, "/opt/cuda/lib/libcublas.so.12", "/opt/cuda/lib/libnvblas.so.12", kTorch, kOpenblas}),
            kOpenblas);
  EXPECT_EQ(found_among({"/opt/mkl/libmkl_core.so.2", kCublas}), "/opt/mkl/libmkl_core.so.2");
  EXPECT_EQ(found_among({kCublas, kTorch}), "");  // a wheel of torch has its BLAS inside
}

}  // namespace
}  // namespace foretime::cli
