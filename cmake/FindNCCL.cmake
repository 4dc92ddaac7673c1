# Finds NCCL (https://github.com/NVIDIA/nccl): defines NCCL_FOUND, NCCL_VERSION and the target NCCL::nccl.
# Looks in NCCL_ROOT, beside a LibTorch of Python's (pip puts NVIDIA's libraries into site-packages/nvidia), in the CUDA
# toolkit (NCCL is often unpacked beside it) and in the system's folders. NCCL's header includes cuda_runtime.h, and its
# callers need streams and events, so CUDA's runtime belongs to it: pip's where it is there, for LibTorch loads that
# one.
set(_nccl_pip)
if(Torch_DIR)  # site-packages/torch/share/cmake/Torch
  get_filename_component(_nccl_site ${Torch_DIR}/../../../.. ABSOLUTE)
  file(GLOB _nccl_pip LIST_DIRECTORIES true ${_nccl_site}/nvidia/*)  # nccl; cuda_runtime, or cu13 with all of CUDA 13
endif()
set(_nccl_hints ${NCCL_ROOT} $ENV{NCCL_ROOT} $ENV{NCCL_HOME} ${_nccl_pip} ${CUDAToolkit_ROOT} ${CUDA_TOOLKIT_ROOT_DIR})
if(DEFINED ENV{CUDA_HOME})
  list(APPEND _nccl_hints $ENV{CUDA_HOME})
else()
  list(APPEND _nccl_hints /usr/local/cuda)
endif()
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_nccl_hints} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${_nccl_hints} PATH_SUFFIXES lib lib64)
find_path(NCCL_CUDA_INCLUDE_DIR cuda_runtime.h HINTS ${_nccl_hints} PATH_SUFFIXES include)
find_library(NCCL_CUDART_LIBRARY NAMES cudart libcudart.so.13 libcudart.so.12
  HINTS ${_nccl_hints} PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*NCCL_MAJOR ([0-9]+).*NCCL_MINOR ([0-9]+).*NCCL_PATCH ([0-9]+).*" "\\1.\\2.\\3" NCCL_VERSION
    "${_nccl_lines}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL
  REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR NCCL_CUDA_INCLUDE_DIR NCCL_CUDART_LIBRARY VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR};${NCCL_CUDA_INCLUDE_DIR}"
      INTERFACE_LINK_LIBRARIES ${NCCL_CUDART_LIBRARY})
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY NCCL_CUDA_INCLUDE_DIR NCCL_CUDART_LIBRARY)
