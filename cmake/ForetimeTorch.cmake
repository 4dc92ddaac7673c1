# LibTorch as the target foretime_torch, and NCCL as NCCL::nccl where FORETIME_WITH_NCCL is set. A LibTorch with CUDA
# defines FORETIME_TORCH_CUDA; it should have NCCL beside it, and is refused with another C++ ABI than ours.
find_package(Torch REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Both kinds compile, and only linking would fail, with a page of undefined symbols.
if("${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(FATAL_ERROR
    "LibTorch ${Torch_VERSION} in ${Torch_DIR} has GCC's C++ ABI of before 2015 (_GLIBCXX_USE_CXX11_ABI=0), and the "
    "system's fmt and yaml-cpp have the present one, so no program could be linked with both. Expected a LibTorch with the present "
    "ABI: Python's wheels of torch 2.7 and later, the archives libtorch-cxx11-abi-*, or Debian's libtorch-dev.")
endif()

# As a system library: its headers are not ours to fix.
add_library(foretime_torch INTERFACE)
target_link_libraries(foretime_torch INTERFACE ${TORCH_LIBRARIES} OpenMP::OpenMP_CXX)
target_include_directories(foretime_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_compile_definitions(foretime_torch INTERFACE FORETIME_TORCH_VERSION="${Torch_VERSION}")
separate_arguments(foretime_torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
add_compile_options(${foretime_torch_flags})
set(FORETIME_WITH_CUDA OFF)
if(TARGET torch_cuda OR TARGET c10_cuda)
  set(FORETIME_WITH_CUDA ON)
  target_compile_definitions(foretime_torch INTERFACE FORETIME_TORCH_CUDA=1)
endif()

set(FORETIME_WITH_NCCL OFF)
if(FORETIME_NCCL)
  find_package(NCCL 2.14)  # the first with communicators that do not block
  if(NCCL_FOUND)
    set(FORETIME_WITH_NCCL ON)
  elseif(FORETIME_WITH_CUDA)
    message(WARNING
      "LibTorch has CUDA, but NCCL 2.14 or later was not found: ranks on GPUs would exchange gradients by MPI, through "
      "the host's memory. Install nvidia-nccl-cu12 or -cu13 beside Python's torch, or libnccl-dev, or name its folder "
      "(include/nccl.h, lib/libnccl.so.2) with -DNCCL_ROOT=DIR. -DFORETIME_NCCL=OFF does without it on purpose.")
  endif()
endif()
