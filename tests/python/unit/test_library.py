"""The ctypes layer, against a library compiled from the same header."""
import ctypes
import gc
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from support import ROOT, fake_library

import foretime
import foretime.model
from foretime.library import PROTOTYPES, GraphData, Options


class LibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.handle = ctypes.CDLL(fake_library())
        cls.library = foretime.Library(cls.handle)

    def model(self, content=b"2", **options):
        return foretime.Model(content, library=self.library, **options)

    def test_binds_what_the_header_declares(self):
        header = (ROOT / "inference/capi/foretime.h").read_text()
        declared = set(re.findall(r"FORETIME_API [^;(]*?(foretime_\w+)\(", header))
        self.assertEqual(declared, set(PROTOTYPES))
        version = re.search(r"define FORETIME_ABI_VERSION (\d+)", header)
        self.assertEqual(int(version.group(1)), foretime.ABI_VERSION)

    def test_structures_are_as_large_as_in_c(self):
        self.assertEqual(ctypes.sizeof(Options), 24)
        self.assertEqual(ctypes.sizeof(GraphData), 88)

    def test_opens_a_file_and_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bundle")
            with open(path, "wb") as file:
                file.write(b"1")
            with foretime.Model.open(path, threads=3, library=self.library) as model:
                self.assertEqual(model.kind, "tile")
                self.assertEqual(model.describe()["threads"], 3)
                self.assertEqual(model.file, path)
        with self.model(b"3", max_states=1 << 40) as model:
            self.assertEqual((model.kind, model.file), ("trees", ""))
            self.assertEqual(
                model.describe(), {"threads": 1, "max_states": 1 << 40, "predicts_runtimes": False, "name": "é"}
            )

    def test_errors_have_code_and_message(self):
        with self.assertRaises(foretime.ForetimeError) as caught:
            self.model(b"x")
        self.assertEqual((caught.exception.code, caught.exception.status), (3, "bad bundle"))
        self.assertEqual(caught.exception.message, "no bundle; export it again")
        with self.assertRaises(foretime.ForetimeError) as caught:
            foretime.Model("/nowhere/at/all", library=self.library)
        self.assertEqual(caught.exception.code, 2)
        with self.model(b"0") as model, self.assertRaisesRegex(foretime.ForetimeError, "no workloads"):
            model.workload("{}")

    def test_tells_chances_of_failure(self):
        with self.model(b"2r") as model:
            self.assertTrue(model.predicts_failures)
            self.assertEqual(model.unknown_machine("llvm -model=far"), "far")
            self.assertEqual(model.unknown_machine("llvm"), "")
            scores, failures = model.score_tir_and_failures(["{1}", "x"])
            self.assertEqual(scores.tolist(), [3, np.inf])
            self.assertAlmostEqual(failures[0], 1 / 3, 6)
            self.assertTrue(np.isnan(failures[1]))
            with model.workload("{}") as workload:
                scores, failures = workload.score_and_failures(["{12}"])
                self.assertEqual(scores.tolist(), workload.score(["{12}"]).tolist())
                self.assertAlmostEqual(failures[0], 1 / scores[0], 6)
        with self.model(b"2") as model:
            self.assertFalse(model.predicts_failures)

    def test_another_abi_is_refused(self):
        script = f"import foretime, ctypes; foretime.Library(ctypes.CDLL({fake_library()!r}))"
        environment = dict(os.environ, FAKE_ABI="7", PYTHONPATH=str(ROOT / "python"))
        refused = subprocess.run([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(b"has ABI 7, this package needs 1", refused.stderr)

    def test_finds_the_library_by_the_environment(self):
        script = "import foretime; print(foretime.load().version().decode())"
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), FORETIME_LIBRARY=fake_library())
        found = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True)
        self.assertEqual(found.stdout, b"0.0-fake\n")
        environment["FORETIME_LIBRARY"] = "/nowhere/libforetime.so"
        missing = subprocess.run([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, check=False)
        self.assertIn(b"set FORETIME_LIBRARY to its path; /nowhere/libforetime.so", missing.stderr)

    def test_scores_records(self):
        with self.model() as model, model.workload('{"é"}') as workload:
            scores = workload.score(['{"i": 1}', b'{"longer": "\xc3\xa9"}', "no"])
            self.assertEqual(scores.dtype, np.float32)
            self.assertEqual(scores.tolist(), [6 + 8, 6 + 16, np.inf])
            self.assertEqual(workload.failure(), "text 2: no JSON")
            self.assertEqual(workload.score([]).shape, (0,))
            self.assertEqual(model.score_records('{"é"}', ['{"i": 1}']).tolist(), [14])
            self.assertEqual(model.score_records(b"{}", ["{}"]).tolist(), [4])
        with self.model(b"2") as model:
            self.assertEqual(model.score_tir(["{1}", "x"]).tolist(), [3, np.inf])

    def test_prepared_workloads_are_kept_and_bounded(self):
        with self.model() as model:
            before = self.handle.fake_open_objects()
            for _ in range(3):
                model.score_records("{}", ["{}"])
            self.assertEqual(self.handle.fake_open_objects(), before + 1)
            for number in range(200):
                model.score_records("{%d}" % number, ["{}"])
            gc.collect()
            self.assertEqual(self.handle.fake_open_objects(), before + foretime.model.KEPT_WORKLOADS)

    def test_closes_what_it_opened(self):
        before = self.handle.fake_open_objects()
        model = self.model(b"0")
        graph = model.hlo(b"12345")
        self.assertEqual(graph.nodes, 5)
        model.close()
        model.close()
        self.assertTrue(model.closed)
        with self.assertRaisesRegex(ValueError, "model is closed"):
            model.score_tir(["{}"])
        self.assertEqual(graph.nodes, 5)
        del graph
        gc.collect()
        self.assertEqual(self.handle.fake_open_objects(), before)

    def graph_of(self, model, **changed):
        arguments = {
            "node_features": np.arange(6, dtype=np.float64).reshape(3, 2),
            "node_types": [1, 2, 3],
            "edge_index": np.asfortranarray([[1, 0], [2, 1]], dtype=np.int64),
            "configurable_nodes": [0, 2],
            "collection": "layout:xla:default",
        }
        return model.graph(**dict(arguments, **changed))

    def test_scores_layouts(self):
        with self.model(b"0") as model:
            graph = self.graph_of(model)
            expected = 15 + 60 + 300 - 1000 + 20000
            layouts = np.full((4, 2, 18), -1.0)
            layouts[1, 1, 5] = 4
            self.assertEqual(
                graph.score_layouts(layouts).tolist(), [expected - 36, expected - 31, expected - 36, expected - 36]
            )
            self.assertEqual(graph.configurable_nodes.tolist(), [0, 2])
            with self.assertRaisesRegex(ValueError, r"expected \(candidates, 2, 18\)"):
                graph.score_layouts(np.zeros((4, 3, 18), np.int8))
            with self.assertRaisesRegex(ValueError, "int8 does not hold"):
                graph.score_layouts(np.full((1, 2, 18), 0.5))
            with self.assertRaisesRegex(ValueError, "node_types: 2, expected 3"):
                self.graph_of(model, node_types=[1, 2])

    def test_scores_tiles(self):
        with self.model(b"1") as model:
            graph = self.graph_of(model, configurable_nodes=(), collection=None)
            self.assertEqual(graph.configurable_nodes.tolist(), [])
            tiles = np.zeros((2, 24))
            tiles[1, 23] = 7
            self.assertEqual(graph.score_tiles(tiles).tolist(), [-625, -618])

    def test_ranks_and_run_times(self):
        with self.model(b"2r") as model:
            self.assertEqual(model.rank([3.0, 1.0, 2.0]).tolist(), [1, 2, 0])
            self.assertEqual(model.rank([3.0, 1.0, 2.0], top=2).tolist(), [1, 2])
            self.assertEqual(model.rank([3.0], top=5).tolist(), [0])
            np.testing.assert_allclose(model.runtimes([0.0, 100.0, np.inf]), [1.0, np.e, np.inf])
        with self.model() as model, self.assertRaises(foretime.ForetimeError):
            model.runtimes([0.0])
