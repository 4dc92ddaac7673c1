"""The types of the Python package: mypy finds the annotations right, and what runs has what they say. FORETIME_LIBRARY, FORETIME_BUNDLES
and FORETIME_SOURCE_DIR name what is tested; what calls return is checked by the other tests of the package (declared_types.py)."""
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import numpy.typing as npt

import declared_types
from commands import run

SOURCE = pathlib.Path(os.environ["FORETIME_SOURCE_DIR"])
PACKAGE = SOURCE / "python"
sys.path.insert(0, str(PACKAGE))

import foretime  # noqa: E402

# What stubtest cannot see: fields of ctypes' structures, what modules import from elsewhere, and what later Pythons have than the 3.9 of
# pyproject.toml.
UNSEEN = r"""
foretime\.(\w+\.)?(ArrayData|GraphData|Options)\.\w+
foretime(\.\w+)+\.(Callable|Iterable|Iterator|Mapping|MutableMapping|Sequence|OrderedDict|TypeVar|dataclass|field|Namespace|ModuleType)(\.\w+)?
foretime\.compat\.\w+\.take
foretime\.wandb\.xgboost\.WandbCallback
foretime\.(records\.)?Records\.(__match_args__|__replace__)
foretime(\.\w+)+\.(Task|Names|DatabaseProgram)\.(__match_args__|__replace__)
foretime\.library\.Structure\.__getattr__
foretime\.groups\.Model
foretime\.handles\.TracebackType
foretime\.(auto_scheduler|compute_dag|meta_schedule)
"""


def mypy_settings(folder):
    """pyproject.toml for mypy, in `folder`. NumPy's own types of 2.1 and later cannot be read as Python 3.9, the oldest for us."""
    text = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
    if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1):
        text = text.replace('python_version = "3.9"', 'python_version = "3.10"')
    settings = pathlib.Path(folder) / "pyproject.toml"
    settings.write_text(text, encoding="utf-8")
    return settings


class Types(unittest.TestCase):
    def test_mypy_strict(self):
        if not shutil.which("mypy"):
            self.skipTest("needs mypy")
        with tempfile.TemporaryDirectory() as folder:
            user = pathlib.Path(folder) / "user.py"
            user.write_text(
                "import numpy as np\nimport numpy.typing as npt\n\nimport foretime\n\n"
                'model = foretime.open("model.foretime")\n'
                'scores: npt.NDArray[np.float32] = model.score_programs(["{}"], "{}")\n'
                "places: npt.NDArray[np.int64] = foretime.rank(scores, top=3)\n"
            )
            environment = {**os.environ, "MYPYPATH": str(PACKAGE)}
            common = ["mypy", "--config-file", mypy_settings(folder), "--cache-dir", folder]
            run(*common, "-p", "foretime", env=environment, cwd=SOURCE)
            run(*common, user, env=environment, cwd=folder)
            user.write_text('import foretime\n\nwrong: str = foretime.open("model.foretime").rank([1.0])\n')
            done = subprocess.run(
                [*common, user], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=False
            )
            self.assertIn("Incompatible types in assignment", done.stdout)
            user.write_text("import foretime\n\nversion: str = foretime.__version__\nforetime.opne\n")
            done = subprocess.run(
                [*common, user], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=False
            )
            self.assertIn('user.py:4: error: Module has no attribute "opne"', done.stdout)
            self.assertIn("Found 1 error", done.stdout)

    def test_what_runs_has_what_the_annotations_say(self):
        # mypy's own comparison of declarations with the imported package: names, arguments, defaults, properties.
        if not shutil.which("stubtest"):
            self.skipTest("needs mypy's stubtest")
        with tempfile.TemporaryDirectory() as folder:
            unseen, copy = pathlib.Path(folder) / "unseen", pathlib.Path(folder) / "copy"
            unseen.write_text(UNSEEN)
            shutil.copytree(PACKAGE / "foretime", copy / "foretime", ignore=shutil.ignore_patterns("__pycache__"))

            def stubtest():
                environment = {
                    **os.environ,
                    "MYPYPATH": str(copy),
                    "PYTHONPATH": str(copy),
                    "PYTHONDONTWRITEBYTECODE": "1",
                }
                return subprocess.run(
                    [
                        "stubtest",
                        "foretime",
                        "--concise",
                        "--mypy-config-file",
                        mypy_settings(folder),
                        "--allowlist",
                        unseen,
                        "--ignore-unused-allowlist",
                    ],
                    env=environment,
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                )

            done = stubtest()
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(copy / "foretime" / "records.py", "a", encoding="utf-8") as file:
                file.write(
                    "\n\nif not isinstance(0, str):\n    Records.__len__ = lambda self, more: 0  # type: ignore\n"
                )
            done = stubtest()
            self.assertIn("foretime.records.Records.__len__", done.stdout, "it would notice")

    def test_the_documentation_names_what_is_public(self):
        named = set()
        for page in sorted((SOURCE / "docs").rglob("*.md")):
            for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
                named |= set(re.findall(r"(?<![\w./\"-])foretime\.([A-Za-z_]\w*)", block))
        self.assertGreater(len(named), 8)
        self.assertEqual(named - set(foretime.__all__), {"auto_scheduler", "meta_schedule"})
        for name in foretime.__all__:
            self.assertTrue(getattr(foretime, name).__doc__, name)
        for name, entry in vars(foretime).items():
            if name in foretime.__all__ and inspect.isclass(entry):
                untold = [
                    member
                    for member, found in vars(entry).items()
                    if not member.startswith("_") and inspect.isfunction(found) and not found.__doc__
                ]
                self.assertLessEqual(set(untold), {"open", "of_rows", "of_texts", "rows", "to_pandas"}, name)

    def test_declared_types_are_compared(self):
        for value, declared in (
            (1, int),
            (None, type(None)),
            ([1, 2], list[int]),
            ((1, "x"), tuple[int, str]),
            ({"a": [1.0]}, dict[str, list[float]]),
            (np.zeros(2, np.float32), npt.NDArray[np.float32]),
        ):
            self.assertTrue(declared_types.agrees(value, declared), (value, declared))
        for value, declared in (
            ("1", int),
            (0, type(None)),
            ([1, "2"], list[int]),
            ((1,), tuple[int, str]),
            ({"a": 1}, dict[str, list[float]]),
            (np.zeros(2), npt.NDArray[np.float32]),
            ([1.0], npt.NDArray[np.float64]),
        ):
            self.assertFalse(declared_types.agrees(value, declared), (value, declared))
        watch = declared_types.Watch(foretime)
        try:
            self.assertGreater(len(watch.all), 60)
            foretime.rank([1.0])
            self.assertIn("rank", watch.seen)
            with self.assertRaisesRegex(TypeError, r"Table.__getitem__: returned \[1, 2\], declared"):
                foretime.Table({"a": [1, 2]})["a"]  # not an array
        finally:
            watch.end()


if __name__ == "__main__":
    unittest.main()
