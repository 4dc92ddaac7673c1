#include "models/gpu/nvrtc.h"

#include <initializer_list>

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/no_copy.h"
#include "models/graph/error.h"

namespace foretime::gpu {
namespace {

using models::ModelError;

/// A shared library of which some functions are called.
class Library {
 public:
  Library(const char* what, std::initializer_list<const char*> names) : what_(what) {
    for (const char* name : names)
      if ((handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) return;
  }
  bool found() const { return handle_ != nullptr; }
  /// A function whose result is a code of errors, 0 for none.
  template <class... Arguments>
  int operator()(const char* name, Arguments... arguments) const {
    return reinterpret_cast<int (*)(Arguments...)>(symbol(name))(arguments...);
  }
  const char* text(const char* name, int code) const {
    return reinterpret_cast<const char* (*)(int)>(symbol(name))(code);
  }

 private:
  void* symbol(const char* name) const {
    if (handle_ == nullptr)
      throw ModelError("GPU kernels need {}, which is not found; install it beside LibTorch", what_);
    // LibTorch's wrapper brings both libraries; their functions are found behind it.
    void* found = ::dlsym(handle_, name);
    if (found == nullptr)
      throw ModelError("GPU kernels: {} has no function {}; expected CUDA 11.2 or later", what_, name);
    return found;
  }

  const char* what_;
  void* handle_ = nullptr;
};

const Library& nvrtc() {
  static const Library library(
      "libnvrtc", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", "libcaffe2_nvrtc.so"});
  return library;
}

const Library& driver() {
  static const Library library("libcuda.so.1, which the GPU's driver brings", {"libcuda.so.1"});
  return library;
}

void check_nvrtc(int result, const std::string& what) {
  if (result != 0) throw ModelError("GPU kernels: {}: {}", what, nvrtc().text("nvrtcGetErrorString", result));
}

void check_driver(int result, const char* what) {
  if (result == 0) return;
  const char* message = nullptr;
  driver()("cuGetErrorString", result, &message);
  throw ModelError("GPU kernels: {}: {}", what, message != nullptr ? message : "an unknown error of the driver");
}

/// nvrtcProgram
class Program : NoCopy {
 public:
  explicit Program(const char* source) {
    check_nvrtc(nvrtc()("nvrtcCreateProgram", &handle_, source, "kernels.cu", 0, nullptr, nullptr),
                "nvrtcCreateProgram");
  }
  ~Program() { nvrtc()("nvrtcDestroyProgram", &handle_); }

  template <class... Arguments>
  int operator()(const char* name, Arguments... arguments) const {
    return nvrtc()(name, handle_, arguments...);
  }
  /// Returns the text of a pair of NVRTC functions: one returns its size, the other fills the buffer.
  std::string text(const std::string& of) const {
    size_t size = 0;
    check_nvrtc((*this)((of + "Size").c_str(), &size), of);
    std::string result(size, '\0');
    check_nvrtc((*this)(of.c_str(), result.data()), of);
    return result;
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace

bool has_nvrtc() { return nvrtc().found(); }

CompiledKernels compile_kernels(const char* source, const std::vector<std::string>& kernels,
                                const std::string& architecture) {
  const Program program(source);
  for (const auto& name : kernels) check_nvrtc(program("nvrtcAddNameExpression", name.c_str()), name);
  const auto target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17"};
  if (const int result = program("nvrtcCompileProgram", 2, static_cast<const char**>(options)); result != 0)
    throw ModelError("GPU kernels: {} for {}: {}", nvrtc().text("nvrtcGetErrorString", result), architecture,
                     program.text("nvrtcGetProgramLog"));
  CompiledKernels compiled{program.text("nvrtcGetCUBIN"), {}};
  for (const auto& name : kernels) {
    const char* lowered = nullptr;
    check_nvrtc(program("nvrtcGetLoweredName", name.c_str(), &lowered), name);
    compiled.names.emplace_back(lowered);
  }
  return compiled;
}

std::vector<KernelHandle> load_kernels(const CompiledKernels& kernels) {
  void* module = nullptr;  // never unloaded: kernels live as long as the process
  check_driver(driver()("cuModuleLoadData", &module, static_cast<const void*>(kernels.code.data())),
               "cuModuleLoadData");
  std::vector<KernelHandle> handles;
  for (const auto& name : kernels.names)
    check_driver(driver()("cuModuleGetFunction", &handles.emplace_back(), module, name.c_str()), name.c_str());
  return handles;
}

std::string architecture_of(int gpu) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
  int device = 0, major = 0, minor = 0;
  check_driver(driver()("cuDeviceGet", &device, gpu), "cuDeviceGet");
  check_driver(driver()("cuDeviceGetAttribute", &major, kMajor, device), "cuDeviceGetAttribute");
  check_driver(driver()("cuDeviceGetAttribute", &minor, kMinor, device), "cuDeviceGetAttribute");
  return fmt::format("sm_{}{}", major, minor);
}

void launch(KernelHandle kernel, unsigned blocks, unsigned threads, void* stream, void** arguments) {
  check_driver(driver()("cuLaunchKernel", kernel, blocks, 1U, 1U, threads, 1U, 1U, 0U, stream, arguments,
                        static_cast<void**>(nullptr)),
               "cuLaunchKernel");
}

}  // namespace foretime::gpu
