"""cmake/ForetimeTorch.cmake against packages of LibTorch made here, laid out as pip lays out torch and NVIDIA's libraries.

A small project includes it, and links a program that asks NCCL and LibTorch's CUDA library for a number each.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["FORETIME_SOURCE_DIR"])
CMAKE = os.environ["FORETIME_CMAKE"]
CXX = os.environ["FORETIME_CXX"]

PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(finds LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH {SOURCE}/cmake)
option(FORETIME_NCCL "" ON)
include(ForetimeTorch)
add_executable(finds finds.cpp)
target_link_libraries(finds foretime_torch)
if(FORETIME_WITH_NCCL)
  target_link_libraries(finds NCCL::nccl)
  target_compile_definitions(finds PRIVATE WITH_NCCL)
endif()
"""

PROGRAM = """#include <cstdio>
#ifdef FORETIME_TORCH_CUDA
extern "C" int torch_cuda_number();
#endif
#ifdef WITH_NCCL
#include <nccl.h>
#include <cuda_runtime.h>
extern "C" int ncclGetVersion();
extern "C" int cudaRuntimeGetVersion();
#endif
int main() {
#ifdef FORETIME_TORCH_CUDA
  std::printf("cuda %d\\n", torch_cuda_number());
#endif
#ifdef WITH_NCCL
  std::printf("nccl %d, header %d, runtime %d, header %d\\n", ncclGetVersion(), NCCL_MINOR, cudaRuntimeGetVersion(), CUDART_VERSION);
#endif
}
"""

# What torch's own file defines, as far as it matters here: the variables, and targets of its libraries.
TORCH_CONFIG = """get_filename_component(root ${{CMAKE_CURRENT_LIST_DIR}}/../../.. ABSOLUTE)
set(Torch_VERSION 2.7.0)
set(TORCH_INCLUDE_DIRS ${{root}}/include)
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={abi}")
foreach(name {libraries})
  add_library(${{name}} SHARED IMPORTED)
  set_target_properties(${{name}} PROPERTIES IMPORTED_LOCATION ${{root}}/lib/lib${{name}}.so)
  list(APPEND TORCH_LIBRARIES ${{name}})
endforeach()
"""


def library(path, *functions):
    path.parent.mkdir(parents=True, exist_ok=True)
    code = "".join(f'extern "C" int {name}() {{ return {value}; }}\n' for name, value in functions)
    subprocess.run(
        [CXX, "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-x", "c++", "-", "-o", path],
        input=code,
        text=True,
        check=True,
    )


def header(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def nccl(folder, minor):
    header(folder / "include/nccl.h", f"#define NCCL_MAJOR 2\n#define NCCL_MINOR {minor}\n#define NCCL_PATCH 3\n")
    library(folder / "lib/libnccl.so.2", ("ncclGetVersion", minor))


class TorchTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.site = self.folder / "lib/python3/site-packages"
        self.project = self.folder / "project"
        header(self.project / "CMakeLists.txt", PROJECT)
        header(self.project / "finds.cpp", PROGRAM)

    def torch(self, cuda=True, abi=1):
        names = ["torch", "torch_cuda"] if cuda else ["torch"]
        for name in names:
            library(self.site / f"torch/lib/lib{name}.so", (f"{name}_number", 7))
        (self.site / "torch/include").mkdir(exist_ok=True)
        header(
            self.site / "torch/share/cmake/Torch/TorchConfig.cmake",
            TORCH_CONFIG.format(abi=abi, libraries=" ".join(names)),
        )

    def cuda(self, folder, major):
        header(self.site / f"nvidia/{folder}/include/cuda_runtime.h", f"#define CUDART_VERSION {major}\n")
        library(self.site / f"nvidia/{folder}/lib/libcudart.so.{major}", ("cudaRuntimeGetVersion", major))

    def configure(self, *arguments, prefix="torch/share/cmake"):
        """CMake's exit code and all that it printed, on one line. Folders of this machine's own are not searched."""
        build = self.folder / "build"
        shutil.rmtree(build, ignore_errors=True)
        environment = {key: value for key, value in os.environ.items() if not re.match("NCCL_|CMAKE_|Torch", key)}
        environment["CUDA_HOME"] = str(self.folder / "no toolkit")  # else it would be /usr/local/cuda
        done = subprocess.run(
            [
                CMAKE,
                "-G",
                "Ninja",
                "-S",
                self.project,
                "-B",
                build,
                f"-DCMAKE_PREFIX_PATH={self.site / prefix}",
                f"-DCMAKE_CXX_COMPILER={CXX}",
                "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
                *arguments,
            ],
            capture_output=True,
            text=True,
            env=environment,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def output(self):
        built = subprocess.run([CMAKE, "--build", self.folder / "build"], capture_output=True, text=True)
        self.assertEqual(0, built.returncode, built.stdout + built.stderr)
        return subprocess.run([self.folder / "build/finds"], check=True, capture_output=True, text=True).stdout

    def test_pips_layout_is_found_by_the_prefix_alone(self):
        self.torch()
        nccl(self.site / "nvidia/nccl", 21)
        for folder, major in (("cuda_runtime", 12), ("cu13", 13)):
            self.cuda(folder, major)
            for prefix in ("torch/share/cmake", "torch", "."):
                with self.subTest(cuda=folder, prefix=prefix):
                    code, text = self.configure(prefix=prefix)
                    self.assertEqual(0, code, text)
                    self.assertNotIn("Warning", text)
                    self.assertEqual(f"cuda 7\nnccl 21, header 21, runtime {major}, header {major}\n", self.output())
            shutil.rmtree(self.site / "nvidia" / folder)

    def test_a_named_nccl_comes_before_pips(self):
        self.torch()
        self.cuda("cuda_runtime", 12)
        nccl(self.site / "nvidia/nccl", 21)
        nccl(self.folder / "own", 28)
        code, text = self.configure(f"-DNCCL_ROOT={self.folder}/own")
        self.assertEqual(0, code, text)
        self.assertIn("nccl 28, header 28", self.output())

    def test_a_cuda_libtorch_without_nccl_warns(self):
        self.torch()
        self.cuda("cuda_runtime", 12)
        for why in ("none", "too old"):
            if why == "too old":
                nccl(self.site / "nvidia/nccl", 10)
            with self.subTest(nccl=why):
                code, text = self.configure()
                self.assertEqual(0, code, text)
                self.assertRegex(text, "CMake Warning.* LibTorch has CUDA, but NCCL 2.14 or later was not found")
                self.assertIn("-DNCCL_ROOT=DIR", text)
                self.assertEqual("cuda 7\n", self.output())
                code, text = self.configure("-DFORETIME_NCCL=OFF")
                self.assertEqual((0, False), (code, "Warning" in text), text)

    def test_a_libtorch_without_cuda_needs_no_nccl(self):
        self.torch(cuda=False)
        code, text = self.configure()
        self.assertEqual((0, False), (code, "Warning" in text), text)
        self.assertNotIn("cuda", self.output())

    def test_the_old_abi_is_refused(self):
        self.torch(abi=0)
        code, text = self.configure()
        self.assertNotEqual(0, code)
        self.assertIn("LibTorch 2.7.0 in", text)
        self.assertIn("_GLIBCXX_USE_CXX11_ABI=0", text)
        self.assertIn("wheels of torch 2.7 and later", text)
