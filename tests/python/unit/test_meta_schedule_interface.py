"""The cost model for MetaSchedule against the interfaces of TVM's releases, where no TVM is: packages of the same names (fake_tvm.py),
whose classes call the model in the way that TVM's sources do."""
import os
import subprocess
import sys

from fake_tvm import GENERATIONS, write_package
from support import ROOT, FolderTest, fake_library

HEAD = """
import ctypes, json, os, sys, types
import numpy as np
import foretime
import fake_programs
from fake_programs import Module, program, target
from foretime.meta_schedule import ForetimeCostModel

bundle, library, folder = sys.argv[1:]
library = foretime.Library(ctypes.CDLL(library))

def candidate(stores):
    return types.SimpleNamespace(sch=types.SimpleNamespace(mod=Module(program(stores))))

def result(seconds):
    return types.SimpleNamespace(run_secs=None if seconds is None else [seconds, seconds], error_msg=None if seconds else "timeout")

def context(options={"kind": "llvm", "num-cores": 2}):
    return types.SimpleNamespace(mod=Module(program(1)), target=target(options))
"""
CALLS = """
model = ForetimeCostModel(bundle, library=library)
load, save, update, predict = model.handle
candidates = [candidate(stores) for stores in (3, 1, 2)]
speeds = np.full(3, -1.0)
predict(context(), candidates, ctypes.c_void_p(speeds.ctypes.data))
assert (speeds > 0).all() and np.argsort(-speeds).tolist() == [1, 2, 0], speeds
update(context(), candidates, [result(0.5), result(None), result(0.25)])
lines = [json.loads(line) for line in model.records]
assert [line.get("runtime") for line in lines] == [0.5, None, 0.25] and lines[1]["failed"], lines
assert {line["workload"] for line in lines} == {"1"} and len({line["id"] for line in lines}) == 3, lines
attributes = json.loads(lines[0]["program"])["attrs"]
assert attributes["target"] == "llvm -num-cores=2" and attributes["tvm"] == sys.modules["tvm"].__version__, attributes
save(os.path.join(folder, "saved"))
load(os.path.join(folder, "saved"))
assert model.records == []
predict(context(), [], ctypes.c_void_p(speeds.ctypes.data))
print("well")
"""
UNREADABLE = """
several = types.SimpleNamespace(sch=types.SimpleNamespace(mod=Module(program(1), program(1))))
model = ForetimeCostModel(bundle, library=library)
speeds = model.predict(context(), [candidate(1), several, candidate(1)])
assert speeds[0] == speeds[2] > 0 and speeds[1] > 0, speeds
model.update(context(), [several, candidate(2)], [result(0.5), result(0.25)])
assert len(model.records) == 1, model.records
try:
    for _ in range(100):
        ForetimeCostModel(bundle, library=library).predict(context(), [several] * 100)
except foretime.ForetimeError as error:
    print(error)
"""
FINE_TUNING = """
script = "import shutil, sys; assert len(open(sys.argv[2]).readlines()) == 6; shutil.copyfile(sys.argv[1], sys.argv[3])"
words = (sys.executable, "-c", script, "{model}", "{records}", "{output}")
rounds = os.path.join(folder, "rounds")
model = ForetimeCostModel(bundle, finetune_every=5, finetune_command=words, finetune_folder=rounds, library=library)
model.update(context(), [candidate(1)] * 3, [result(0.5)] * 3)
assert not os.path.exists(rounds)
model.update(context(), [candidate(2)] * 3, [result(0.25)] * 3)
print(sorted(os.listdir(rounds)), len(model.predict(context(), [candidate(1)])))
"""
DATABASES = """
def write(name, workloads, records):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    for file, rows in (("database_workload.json", workloads), ("database_tuning_record.json", records)):
        with open(os.path.join(folder, name, file), "w") as out:
            out.writelines(json.dumps(row) + "\\n" for row in rows)
    return os.path.join(folder, name)

llvm = {"kind": "llvm", "mcpu": "core-avx2"}
records = [[0, [[2], [0.002, 0.004], llvm, []]], [0, [[3], [1e10], llvm, []]], [0, [["Unknown"], [1.0], llvm, []]], [0, [[4], None, llvm, []]]]
database = write("one", [["5", "1"]], records)
model = ForetimeCostModel(bundle, library=library)
assert model.update_from_database(database) == 2
lines = [json.loads(line) for line in model.records]
assert [line.get("runtime") for line in lines] == [0.003, None] and lines[1]["failed"], lines
assert json.loads(lines[0]["program"])["attrs"]["target"] == "llvm -mcpu=core-avx2", lines
os.remove(os.path.join(database, "database_tuning_record.json"))
try:
    model.update_from_database(database)
except FileNotFoundError as error:
    print(error)
try:
    model.update_from_database(write("two", [["5"]], []))
except ValueError as error:
    print(error)
"""
REFUSED = """
try:
    ForetimeCostModel(bundle, library=library)
except foretime.ForetimeError as error:
    print(error)
"""


class Interface(FolderTest):
    def run_with(self, generation, script, kind=b"2"):
        folder = self.folder / generation
        folder.mkdir(exist_ok=True)
        write_package(folder, generation)
        bundle = folder / "bundle"
        bundle.write_bytes(kind)
        path = os.pathsep.join([str(folder), str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(
            [sys.executable, "-B", "-c", HEAD + script, bundle, fake_library(), folder],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )

    def outputs(self, script, kind=b"2"):
        """(generation, standard output) of a script that runs well."""
        for generation in GENERATIONS:
            with self.subTest(generation):
                done = self.run_with(generation, script, kind)
                self.assertEqual(done.returncode, 0, done.stderr)
                yield generation, done.stdout

    def test_models_are_called_as_tvm_calls_them(self):
        for _, output in self.outputs(CALLS):
            self.assertEqual(output, "well\n")

    def test_candidates_that_cannot_be_read_are_average_until_there_are_no_others(self):
        for _, output in self.outputs(UNREADABLE):
            self.assertIn("none of 100 candidates", output)
            self.assertIn("a module of 2 functions of TIR, expected one", output)

    def test_learns_during_a_search(self):
        for _, output in self.outputs(FINE_TUNING):
            self.assertEqual(output, "['dags.jsonl', 'finetuned-1.foretime', 'records.json'] 1\n")

    def test_databases_are_read(self):
        for generation, output in self.outputs(DATABASES):
            self.assertIn("database_tuning_record.json: no such file", output)
            self.assertIn(f"no workload that TVM {GENERATIONS[generation][0]} reads", output)

    def test_bundles_of_other_inputs_are_refused(self):
        for _, output in self.outputs(REFUSED, b"0"):
            self.assertIn("scores candidates of XLA graphs (layout), expected a model of programs for CPUs", output)

    def test_tvm_without_meta_schedule_is_refused(self):
        generation = "tvm_ffi"
        self.run_with(generation, "")
        for folder in sorted((self.folder / generation / "tvm" / "meta_schedule").rglob("*"), reverse=True):
            folder.rmdir() if folder.is_dir() else folder.unlink()
        (self.folder / generation / "tvm" / "meta_schedule").rmdir()
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import foretime.meta_schedule"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder / generation), str(ROOT / "python")])},
            check=False,
        )
        self.assertIn("ImportError: TVM 0.22.0 has no MetaSchedule under the names of TVM 0.10 and later", done.stderr)
