"""The Python package as its users have it: a wheel in a fresh virtual environment, its types, threads, and scores that are those of the
program. FORETIME, FORETIME_LIBRARY, FORETIME_BUNDLES (what sample_files writes), FORETIME_SYNTHESIZE_GRAPH and FORETIME_SOURCE_DIR name what is tested."""
import copy
import csv
import io
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import declared_types
from commands import run

SOURCE = pathlib.Path(os.environ["FORETIME_SOURCE_DIR"])
BUNDLES = pathlib.Path(os.environ["FORETIME_BUNDLES"])
LIBRARY = os.environ["FORETIME_LIBRARY"]
# The library is compiled otherwise than the program: scores differ in their last bits.
OTHER_BUILD = "FORETIME_OTHER_BUILD" in os.environ
sys.path.insert(0, str(SOURCE / "python"))

import foretime  # noqa: E402

WATCH = declared_types.Watch(foretime)
unittest.addModuleCleanup(WATCH.end)


SCORES = """
import json, sys, pathlib
import foretime
bundles = pathlib.Path(sys.argv[1])
model = foretime.open(bundles / "loops.foretime")
scores = model.score_programs((bundles / "records.json").read_text().splitlines(), (bundles / "compute_dag.json").read_text())
heavy = [name for name in sys.modules if name.split(".")[0] in ("torch", "tvm", "pandas")]
print(json.dumps([foretime.__file__, open("/proc/self/maps").read().count("libtorch"), heavy, [float(score) for score in scores]]))
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def fresh(self, name):
        """Python of a new virtual environment, which sees Debian's numpy."""
        run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", self.folder / name)
        return self.folder / name / "bin" / "python"

    def install(self, python, what):
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", what, env=environment)

    def scores_of(self, python):
        """What a program prints that knows of no checkout, build or environment, but which of OpenBLAS' kernels this machine wants."""
        kernels = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), **kernels}
        return json.loads(run(python, "-I", "-c", SCORES, BUNDLES, env=environment, cwd=self.folder))

    def expected(self):
        with foretime.open(BUNDLES / "loops.foretime") as model:
            scores = model.score_programs(
                (BUNDLES / "records.json").read_text().splitlines(), (BUNDLES / "compute_dag.json").read_text()
            )
        return [float(score) for score in scores]

    def test_wheel_has_all_that_it_needs(self):
        printed = run(
            SOURCE / "tools/package/wheel.sh",
            self.folder / "dist",
            env={**os.environ, "FORETIME_PYTHON": sys.executable},
        )
        wheel = pathlib.Path(printed.splitlines()[-1])
        self.assertRegex(wheel.name, r"^foretime-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        python = self.fresh("wheel")
        self.install(python, wheel)
        place, torch, heavy, scores = self.scores_of(python)
        self.assertIn(str(self.folder / "wheel"), place)
        self.assertEqual((torch, heavy), (0, []))
        self.assertEqual(scores, self.expected())  # bit for bit
        libraries = pathlib.Path(place).parent
        named = run(
            python,
            "-I",
            "-c",
            "import foretime; print(foretime.open('x86-cpu').file)",
            env={"PATH": "/usr/bin:/bin"},
            cwd=self.folder,
        )
        self.assertEqual(named.strip(), str(libraries / "pretrained" / "x86-cpu.foretime"))
        for file in libraries.glob("*.so*"):
            for line in run("ldd", file).splitlines():
                words = line.split()
                if "=>" in words and not any(
                    words[0].startswith(name) for name in ("libc.", "libm.", "libstdc++.", "libgcc_s.", "ld-linux")
                ):
                    self.assertTrue(words[2].startswith(str(libraries)), line)
        # Pip removes what it installed, and nothing is left.
        run(sys.executable, "-m", "pip", "--python", python, "uninstall", "-y", "foretime")
        self.assertFalse(libraries.exists())

    def test_installs_from_the_checkout(self):
        python = self.fresh("checkout")
        self.install(python, SOURCE)
        place, _, _, scores = self.scores_of(python)
        self.assertIn(str(self.folder / "checkout"), place)
        self.assertEqual(scores, self.expected())

    def test_a_checkout_finds_the_library_that_pip_built_for_it(self):
        # `pip install -e .` in a checkout without a release build.
        package, built = self.folder / "tree/python/foretime", self.folder / "tree/build/python/inference/capi"
        shutil.copytree(SOURCE / "python/foretime", package, ignore=shutil.ignore_patterns("__pycache__"))
        built.mkdir(parents=True)
        (built / "libforetime.so").symlink_to(pathlib.Path(LIBRARY).resolve())
        script = f"import sys; sys.path.insert(0, {str(package.parent)!r}); import foretime; print(foretime.__version__, foretime.__file__)"
        printed = run(sys.executable, "-I", "-c", script, env={"PATH": "/usr/bin:/bin"}, cwd=self.folder)
        self.assertIn(str(package), printed)

    def test_the_library_alone_needs_neither_libtorch_nor_mpi(self):
        # What pip builds in a checkout without a build: its targets are whole without the packages that programs need.
        run(
            "cmake",
            "-S",
            SOURCE,
            "-B",
            self.folder / "library",
            "-G",
            "Ninja",
            "-DFORETIME_LIBRARY_ONLY=ON",
            "-DFORETIME_BUILD_TESTS=OFF",
            "-DFORETIME_BUILD_BENCH=OFF",
        )
        packages = (self.folder / "library" / "CMakeCache.txt").read_text()
        self.assertNotIn("Torch_DIR", packages)
        self.assertNotIn("MPI_C_LIBRARIES", packages)

    def test_says_what_is_missing(self):
        done = subprocess.run(
            [sys.executable, SOURCE / "tools/package/python_wheel.py", self.folder / "dist"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FORETIME_LIBRARY": "/nowhere/libforetime.so"},
            check=False,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FORETIME_LIBRARY: /nowhere/libforetime.so: no such file", done.stderr)


class Scores(unittest.TestCase):
    def setUp(self):
        self.model = foretime.open(BUNDLES / "loops.foretime")
        self.dag = (BUNDLES / "compute_dag.json").read_text()
        self.records = (BUNDLES / "records.json").read_text().splitlines()

    def test_are_those_of_the_program(self):
        dags = BUNDLES / "compute_dag.json"
        printed = run(
            os.environ["FORETIME"], "rank", BUNDLES / "loops.foretime", BUNDLES / "records.json", "--dags", dags
        )
        rows = list(csv.DictReader(io.StringIO(printed[printed.index("group,") :])))
        ours = self.model.score_programs(self.records, self.dag)
        theirs = np.full(len(ours), np.nan, np.float32)
        for row in rows:
            theirs[int(row["candidate"])] = np.float32(row["score"])
        if OTHER_BUILD:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
            return
        self.assertTrue(np.array_equal(ours, theirs))
        self.assertEqual(self.model.rank(ours).tolist(), [int(row["candidate"]) for row in rows])

    def test_a_model_is_pickled_by_its_path(self):
        again = pickle.loads(pickle.dumps(self.model))
        self.assertEqual((again.kind, again.file), (self.model.kind, os.path.abspath(BUNDLES / "loops.foretime")))
        self.assertTrue(
            np.array_equal(
                again.score_programs(self.records, self.dag), self.model.score_programs(self.records, self.dag)
            )
        )
        self.assertEqual(copy.copy(self.model).kind, self.model.kind)
        with self.assertRaisesRegex(TypeError, "foretime.Workload cannot be pickled"):
            pickle.dumps(self.model.workload(self.dag))
        with self.assertRaisesRegex(TypeError, "foretime.Model of bytes cannot be pickled"):
            pickle.dumps(foretime.open((BUNDLES / "loops.foretime").read_bytes()))
        files = foretime.read(SOURCE / "samples/resnet18_conv2d/C3.npz", format="programs")
        self.assertEqual(repr(files), "<foretime.Files of 1 groups: C3>")
        files.close()
        self.assertEqual(repr(files), "<closed foretime.Files>")

    def test_groups_score_as_the_program_scores_them(self):
        sample = SOURCE / "samples/resnet18_conv2d/C3.npz"
        with tempfile.TemporaryDirectory() as folder:
            packed = pathlib.Path(folder) / "packed.foretime"
            run(
                os.environ["FORETIME"],
                "data",
                "pack",
                "-o",
                packed,
                sample,
                SOURCE / "samples/resnet18_conv2d/C1.npz",
                "--format",
                "programs",
            )
            model = foretime.open(BUNDLES / "trees.foretime")
            for place in (sample, packed):
                rows = list(
                    csv.DictReader(io.StringIO(run(os.environ["FORETIME"], "rank", BUNDLES / "trees.foretime", place)))
                )
                group = model.read(place)["C3"]
                scores = model.score(group)
                rows = [row for row in rows if row["group"] == "C3"]
                self.assertEqual(len(rows), len(group))
                theirs = np.empty(len(group), np.float32)
                theirs[[int(row["candidate"]) for row in rows]] = [np.float32(row["score"]) for row in rows]
                if OTHER_BUILD:
                    np.testing.assert_allclose(scores, theirs, rtol=1e-4, atol=1e-5)
                    continue
                self.assertTrue(np.array_equal(scores, theirs))
                self.assertEqual(
                    [group.ids[int(row["candidate"])] for row in rows[:5]], [row["id"] for row in rows[:5]]
                )

    def test_arrays_are_views_of_what_was_read(self):
        raw = np.load(SOURCE / "samples/resnet18_conv2d/C3.npz")
        files = foretime.read(SOURCE / "samples/resnet18_conv2d", format="programs")
        self.assertEqual(len(files.names), 12)
        group = files["C3"]
        arrays = group.arrays
        self.assertTrue(np.array_equal(arrays["runtimes"], raw["runtime"]))
        self.assertTrue(np.array_equal(arrays["graph_ptr"], raw["graph_ptr"]))
        self.assertEqual(len(arrays["node_types"]), raw["graph_ptr"][-1])
        self.assertEqual(arrays["node_features"].shape[0], len(arrays["node_types"]))
        self.assertEqual(len(arrays["edge_consumer"]), len(arrays["edge_producer"]))
        self.assertEqual(group.runtimes.ctypes.data, arrays["runtimes"].ctypes.data)  # not copied
        with self.assertRaises(ValueError):
            arrays["runtimes"][0] = 1  # read-only
        runtimes = group.runtimes
        group.close()
        del group, arrays, files
        self.assertTrue(np.array_equal(runtimes, raw["runtime"]))  # the view keeps what it needs
        with self.assertRaisesRegex(KeyError, "C99: no such group; there are C1, C10"):
            foretime.read(SOURCE / "samples/resnet18_conv2d", format="programs")["C99"]
        with self.assertRaisesRegex(foretime.ForetimeError, "expected layout, tile or programs"):
            foretime.read(SOURCE / "samples", format="program")
        with self.assertRaisesRegex(foretime.ForetimeError, "nowhere"):
            foretime.read("nowhere/*.npz", format="layout")

    def test_a_module_and_its_layouts(self):
        with tempfile.TemporaryDirectory() as folder:
            graph_file = pathlib.Path(folder) / "synthetic_a.npz"
            run(os.environ["FORETIME_SYNTHESIZE_GRAPH"], graph_file, "60", "5", "40", "1")
            raw = np.load(graph_file)
            group = foretime.read(graph_file, format="layout")[0]
            self.assertTrue(np.array_equal(group.layouts, raw["node_config_feat"]))
            self.assertTrue(np.array_equal(group.arrays["node_features"], raw["node_feat"]))
            self.assertTrue(np.array_equal(group.arrays["edge_consumer"], raw["edge_index"][:, 0]))
            self.assertEqual(group.unit, "nanoseconds")
            module = foretime.read(BUNDLES / "module.pb", format="layout")[0]
            with foretime.open(BUNDLES / "layout.foretime") as model:
                graph = model.graph_of(module)
                self.assertEqual(graph.nodes, len(module.arrays["node_types"]))
                layouts = np.full((3, len(graph.configurable_nodes), 18), -1, np.int8)
                layouts[1, 0, 0] = 1
                direct = model.hlo((BUNDLES / "module.pb").read_bytes())
                self.assertEqual(graph.score_layouts(layouts).tobytes(), direct.score_layouts(layouts).tobytes())
                with self.assertRaises(foretime.ForetimeError):
                    model.score(foretime.read(SOURCE / "samples/resnet18_conv2d/C1.npz", format="programs")[0])

    def test_records_by_workload(self):
        records = foretime.read_records(
            SOURCE / "samples/ansor/records.jsonl.gz", SOURCE / "samples/ansor/dags.jsonl.gz"
        )
        self.assertEqual(sum(map(len, records)), 4836)
        self.assertTrue(all(entry.compute_dag and (entry.seconds > 0).all() for entry in records))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"i": 3}\n')
            file.flush()
            with self.assertRaisesRegex(ValueError, ":1: no tuning record"):
                foretime.read_records(file.name)

    def test_wrong_arguments_are_refused(self):
        with self.assertRaisesRegex(TypeError, "one text, expected a list"):
            self.model.score_programs(self.records[0], self.dag)
        with self.assertRaisesRegex(foretime.ForetimeError, "nowhere.foretime"):
            foretime.open("nowhere.foretime")
        with foretime.open(BUNDLES / "layout.foretime") as layouts, foretime.open(BUNDLES / "layout.foretime") as other:
            graph = layouts.hlo((BUNDLES / "module.pb").read_bytes())
            with self.assertRaisesRegex(ValueError, "another model prepared it"):
                other.score_layouts(graph, np.zeros((1, len(graph.configurable_nodes), 18), np.int8))
            with self.assertRaisesRegex(TypeError, "expected the Graph"):
                layouts.score_layouts("graph", [])
            with self.assertRaisesRegex(ValueError, "collection: 'xla', expected one of layout:xla:random"):
                layouts.graph(np.zeros((1, 140)), [0], np.zeros((0, 2)), (), "xla")
            with self.assertRaises(foretime.ForetimeError):
                layouts.score_programs(["{}"])
            rows = np.full((1, len(graph.configurable_nodes), 18), -1.0)
            for wrong, message in ((np.nan, "does not hold"), (0.5, "does not hold"), (128, "does not hold")):
                rows[0, 0, 0] = wrong
                with self.assertRaisesRegex(ValueError, message), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    graph.score_layouts(rows)
        with self.assertRaisesRegex(TypeError, "int, expected a text"):
            self.model.score_programs([3], self.dag)  # no text of three zeros
        with self.assertRaisesRegex(ValueError, "top: -5, expected a number of places, or -1"):
            foretime.rank([1.0, 2.0], top=-5)
        with self.assertRaisesRegex(ValueError, "no path, expected .npz files"):
            foretime.read(format="programs")
        with self.assertRaisesRegex(ValueError, "ranks: 0, expected at least 1"):
            foretime.train({}, ranks=0)
        with self.assertRaises(ValueError) as caught:
            foretime.read_records(SOURCE / "samples/resnet18_conv2d/C3.npz")
        self.assertLess(len(str(caught.exception)), 400)

    def test_a_thousand_threads_open_score_and_close(self):
        expected = self.model.score_programs(self.records, self.dag).tobytes()
        content = (BUNDLES / "loops.foretime").read_bytes()
        shared, wrong = foretime.open(content), []

        def work(number):
            try:
                with foretime.open(content) as model:
                    own = model.score_programs(self.records, self.dag).tobytes()
                try:
                    common = shared.score_programs(self.records, self.dag).tobytes()
                except ValueError:  # closed meanwhile
                    common = expected
                if number == 900:
                    shared.close()
                if own != expected or common != expected:
                    wrong.append(number)
            except Exception as error:  # whatever it is, the test fails and says so
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_calls_release_the_lock(self):
        many, workload = self.records * 1000, self.model.workload(self.dag)

        def longest_wait():
            """The longest that this thread waited, as a share of the call."""
            spans = []

            def score():
                begin = time.perf_counter()
                workload.score(many)
                spans.append(time.perf_counter() - begin)

            thread = threading.Thread(target=score)
            thread.start()
            longest, last = 0.0, time.perf_counter()
            while not spans:
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
            thread.join()
            return longest / spans[0]

        # A busy machine may stop this thread, but a lock that is held does so each time, for the whole call.
        self.assertTrue(any(longest_wait() < 0.5 for _ in range(50)))


if __name__ == "__main__":
    unittest.main()
