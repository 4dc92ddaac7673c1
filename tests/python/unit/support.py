"""What the tests share: the package's path, the fake library, whether TVM is there."""
import atexit
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

_folder = tempfile.mkdtemp(prefix="foretime-tests-")
atexit.register(shutil.rmtree, _folder, True)
os.chdir(_folder)  # TVM leaves a cache where it is imported


def _imports(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


TVM = _imports("tvm.auto_scheduler")
needs_tvm = unittest.skipUnless(TVM, "needs a Python with TVM 0.8 to 0.19: import tvm.auto_scheduler failed")
needs_meta_schedule = unittest.skipUnless(_imports("tvm.te"), "needs a Python with TVM: import tvm failed")

_built = []


def fake_library():
    """Path of the fake libforetime.so, compiled once; skips the test where no C compiler is."""
    if not _built:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            raise unittest.SkipTest("needs a C compiler")
        path = os.path.join(_folder, "libforetime.so")
        subprocess.run(
            [
                compiler,
                "-std=c11",
                "-Wall",
                "-Werror",
                "-shared",
                "-fPIC",
                f"-I{ROOT / 'inference/capi'}",
                "-o",
                path,
                str(HERE / "fake_foretime.c"),
                "-lm",
            ],
            check=True,
        )
        _built.append(path)
    return _built[0]


def real_bundle():
    """Path of a bundle for loop programs, with FORETIME_LIBRARY set; skips the test where there is none."""
    bundle = os.environ.get("FORETIME_TEST_BUNDLE")
    if not bundle or not os.environ.get("FORETIME_LIBRARY"):
        raise unittest.SkipTest("needs FORETIME_LIBRARY and FORETIME_TEST_BUNDLE, a bundle for auto_scheduler records")
    return bundle


class FolderTest(unittest.TestCase):
    """`folder` goes with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
