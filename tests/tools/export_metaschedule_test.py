"""tools/data/export_metaschedule.py with a stand-in for TVM: databases in MetaSchedule's form become lines that foretime data pack-tir packs."""
import base64
import contextlib
import gzip
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


class PrimFunc:
    def __init__(self, text):
        self.text = text


class Module:
    def __init__(self, *texts):
        self.functions = {f"main{number}": PrimFunc(text) for number, text in enumerate(texts)}


class Workload:
    """[hash, module in base64]"""

    def __init__(self, module):
        self.mod = module

    @staticmethod
    def from_json(content):
        _, text = content
        return Workload(Module(*json.loads(base64.b64decode(text))))


class Trace:
    """[instructions, decisions]: here an instruction is the program that it makes."""

    def __init__(self, instructions):
        self.instructions = instructions

    def apply_to_schedule(self, schedule, remove_postproc):
        if remove_postproc:
            raise AssertionError("a program was measured with its post-processing")
        for instruction in self.instructions:
            if instruction == "Unknown":
                raise RuntimeError("TVM's trace of calls\nInternalError: there is no instruction Unknown")
            schedule.mod = Module(instruction)


class TuningRecord:
    """[trace, run times, target, arguments]"""

    def __init__(self, trace, run_secs):
        self.trace, self.run_secs = trace, run_secs

    @staticmethod
    def from_json(content, workload):
        assert isinstance(workload, Workload)
        (instructions, _), seconds, _, _ = content
        return TuningRecord(Trace(instructions), seconds)


def stand_in(version="0.14.0"):
    tvm, tir, ir = (types.ModuleType(name) for name in ("tvm", "tvm.tir", "tvm.ir"))
    schedule, database = types.ModuleType("tvm.meta_schedule"), types.ModuleType("tvm.meta_schedule.database")
    tvm.__version__, tvm.tir, tir.PrimFunc = version, tir, PrimFunc
    tir.Schedule = lambda module: types.SimpleNamespace(mod=module)
    ir.save_json = lambda node: node.text if isinstance(node, PrimFunc) else "a module"
    database.TuningRecord, database.Workload = TuningRecord, Workload
    return {
        "tvm": tvm,
        "tvm.tir": tir,
        "tvm.ir": ir,
        "tvm.meta_schedule": schedule,
        "tvm.meta_schedule.database": database,
    }


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        with gzip.open(SOURCE / "samples/tir/resnet18_conv2d_save_json.jsonl.gz", "rt", encoding="utf-8") as file:
            self.programs = [json.loads(line)["before_lowering"] for line in file]

    def database(self, name, workloads, records):
        folder = self.folder / name
        folder.mkdir()
        (folder / "database_workload.json").write_text(
            "".join(
                json.dumps([str(number), base64.b64encode(json.dumps(texts).encode()).decode()]) + "\n"
                for number, texts in enumerate(workloads)
            )
        )
        (folder / "database_tuning_record.json").write_text(
            "".join(
                json.dumps([index, [[trace, []], seconds, {"kind": "llvm"}, []]]) + "\n"
                for index, trace, seconds in records
            )
        )
        return folder

    def export(self, *databases, out="out.jsonl.gz", version="0.14.0"):
        path = SOURCE / "tools" / "data" / "export_metaschedule.py"
        specification = importlib.util.spec_from_file_location("export_metaschedule", path)
        module = importlib.util.module_from_spec(specification)
        said, told = io.StringIO(), io.StringIO()
        with unittest.mock.patch.dict(sys.modules, stand_in(version)), unittest.mock.patch.object(
            sys, "argv", [str(path), *map(str, databases), "-o", str(self.folder / out), "--force"]
        ), contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            specification.loader.exec_module(module)
            code = module.main()
        return code, said.getvalue(), told.getvalue()

    def rows(self, out="out.jsonl.gz"):
        with gzip.open(self.folder / out, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_programs_are_what_traces_make_of_modules(self):
        p = self.programs
        first = self.database(
            "first",
            [["source 0"], ["source 1"]],
            [
                (0, [p[0], p[1]], [0.002, 0.004]),
                (1, [p[2]], [0.5, 1e10]),
                (0, [p[3]], [1e10]),
                (1, [p[4]], [0.25]),
                (0, [p[5]], [0.001]),
            ],
        )
        code, said, told = self.export(first)
        self.assertEqual((code, told), (0, ""))
        self.assertIn("5 programs, 1 of which failed, TVM 0.14.0", said)
        rows = self.rows()
        self.assertEqual([row["program"] for row in rows], [p[1], p[2], p[3], p[4], p[5]])
        self.assertEqual([row.get("runtime") for row in rows], [0.003, 0.5, None, 0.25, 0.001])
        self.assertEqual([row.get("failed") for row in rows], [None, None, True, None, None])
        self.assertEqual(
            [(row["workload"], row["id"]) for row in rows],
            [("0", "first:0"), ("1", "first:1"), ("0", "first:2"), ("1", "first:3"), ("0", "first:4")],
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
        self.assertIn("2 groups", done.stdout)

    def test_what_cannot_be_replayed_is_told_with_its_share(self):
        p = self.programs
        database = self.database(
            "one",
            [["source"]],
            [
                (0, ["Unknown"], [1.0]),
                (0, [p[0]], [1.0]),
                (0, [p[0], "Unknown"], [1.0]),
                (7, [p[0]], [1.0]),
                (0, [p[1]], None),
            ],
        )
        code, said, told = self.export(database)
        self.assertEqual(code, 0)
        self.assertIn("1 programs", said)
        self.assertIn("4 of 5 records (80.0 %) left out", told)
        self.assertIn(
            f"2, the first {database}/database_tuning_record.json:1: InternalError: there is no instruction Unknown",
            told,
        )
        self.assertIn("it was not measured", told)
        nothing = self.database("two", [["source"]], [(0, ["Unknown"], [1.0])])
        code, said, told = self.export(nothing, out="none.jsonl")
        self.assertEqual((code, said), (3, ""))
        self.assertIn("none.jsonl is not written", told)
        self.assertEqual([path.name for path in self.folder.glob("none*")], [])

    def test_other_files_and_versions_are_refused(self):
        database = self.database("one", [["source"]], [])
        (database / "database_tuning_record.json").write_text("[0, [\n")
        with self.assertRaises(SystemExit) as caught:
            self.export(database)
        self.assertIn("database_tuning_record.json:1: no JSON", str(caught.exception))
        self.assertFalse((self.folder / "out.jsonl.gz").exists())
        (database / "database_workload.json").write_text("[]\n")
        with self.assertRaises(SystemExit) as caught:
            self.export(database)
        self.assertIn("database_workload.json:1: no workload that this TVM reads", str(caught.exception))
        (database / "database_tuning_record.json").unlink()
        with self.assertRaises(SystemExit) as caught:
            self.export(database)
        self.assertIn("database_tuning_record.json: no such file", str(caught.exception))
        with self.assertRaises(SystemExit) as caught:
            self.export(database, version="0.21.0")
        self.assertIn("another form", str(caught.exception))

    def test_a_module_of_several_functions_is_written_whole(self):
        module = self.database("one", [["a", "b"]], [(0, [], [1.0])])
        self.export(module)
        self.assertEqual(self.rows()[0]["program"], "a module")


if __name__ == "__main__":
    unittest.main()
