"""tools/data/export_metaschedule.py with stand-ins for TVM of all its generations of names: databases in MetaSchedule's form become
lines that foretime data pack-tir packs."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(SOURCE / "tests" / "python" / "unit"))

from fake_tvm import GENERATIONS, write_package  # noqa: E402

LLVM = {"kind": "llvm", "mcpu": "core-avx2", "num-cores": 2}


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def database(self, name, workloads, records):
        """`workloads`: how many; `records`: workload, trace (numbers of stores), run times. The last program of a trace counts."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "database_workload.json").write_text(
            "".join(json.dumps([str(number), 1 + number]) + "\n" for number in range(workloads))
        )
        (folder / "database_tuning_record.json").write_text(
            "".join(json.dumps([index, [trace, seconds, LLVM, []]]) + "\n" for index, trace, seconds in records)
        )
        return folder

    def export(self, *databases, generation="s_tir", out="out.jsonl.gz"):
        package = self.folder / generation
        write_package(package, generation)
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                SOURCE / "tools/data/export_metaschedule.py",
                *databases,
                "-o",
                self.folder / out,
                "--force",
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(package)},
        )
        return done.returncode, done.stdout, done.stderr

    def rows(self, out="out.jsonl.gz"):
        with gzip.open(self.folder / out, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def stores(self, row):
        return sum(node["type_key"] == "tir.BufferStore" for node in json.loads(row["program"])["nodes"])

    def test_programs_are_what_traces_make_of_modules(self):
        first = self.database(
            "first", 2, [(0, [1, 2], [0.002, 0.004]), (1, [3], [0.5, 1e10]), (0, [4], [1e10]), (1, [5], [0.25])]
        )
        for generation, (version, *_) in GENERATIONS.items():
            with self.subTest(generation):
                code, said, told = self.export(first, generation=generation)
                self.assertEqual((code, told), (0, ""))
                self.assertIn(f"4 programs, 1 of which failed, TVM {version}", said)
                rows = self.rows()
                self.assertEqual([self.stores(row) for row in rows], [2, 3, 4, 5])
                self.assertEqual([row.get("runtime") for row in rows], [0.003, 0.5, None, 0.25])
                self.assertEqual([row.get("failed") for row in rows], [None, None, True, None])
                self.assertEqual([row["id"] for row in rows], [f"first:{number}" for number in range(4)])
                self.assertEqual(
                    {json.loads(row["program"])["attrs"]["target"] for row in rows},
                    {"llvm -mcpu=core-avx2 -num-cores=2"},
                )
        program = os.environ.get("FORETIME")
        if not program:
            self.skipTest("FORETIME names no program")
        done = subprocess.run(
            [program, "data", "pack-tir", "-o", "out.foretime", "out.jsonl.gz"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 groups", done.stdout)

    def test_what_cannot_be_replayed_is_told_with_its_share(self):
        database = self.database(
            "one",
            1,
            [(0, ["Unknown"], [1.0]), (0, [1], [1.0]), (0, [1, "Unknown"], [1.0]), (7, [1], [1.0]), (0, [1], None)],
        )
        code, said, told = self.export(database)
        self.assertEqual(code, 0, told)
        self.assertIn("1 programs", said)
        self.assertIn("4 of 5 records (80.0 %) left out", told)
        self.assertIn(
            f"2, the first {database}/database_tuning_record.json:1: InternalError: there is no instruction Unknown",
            told,
        )
        self.assertIn("it was not measured", told)
        nothing = self.database("two", 1, [(0, ["Unknown"], [1.0])])
        code, said, told = self.export(nothing, out="none.jsonl")
        self.assertEqual((code, said), (3, ""))
        self.assertIn("none.jsonl is not written", told)
        self.assertEqual([path.name for path in self.folder.glob("none*")], [])

    def test_other_files_are_refused(self):
        database = self.database("one", 1, [])
        (database / "database_tuning_record.json").write_text("[0, [\n")
        self.assertIn("database_tuning_record.json:1: no JSON", self.export(database)[2])
        self.assertFalse((self.folder / "out.jsonl.gz").exists())
        (database / "database_workload.json").write_text("[]\n")
        self.assertIn("database_workload.json:1: no workload that TVM 0.24.0 reads", self.export(database)[2])
        (database / "database_tuning_record.json").unlink()
        self.assertIn("database_tuning_record.json: no such file", self.export(database)[2])

    def test_needs_a_tvm(self):
        (self.folder / "tvm").mkdir()
        (self.folder / "tvm" / "__init__.py").write_text("__version__ = '0.9.0'\n")
        done = subprocess.run(
            [sys.executable, "-B", SOURCE / "tools/data/export_metaschedule.py", "x", "-o", self.folder / "out"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
        )
        self.assertIn("needs a Python with TVM and MetaSchedule, 0.10 or later: TVM 0.9.0", done.stderr)


if __name__ == "__main__":
    unittest.main()
