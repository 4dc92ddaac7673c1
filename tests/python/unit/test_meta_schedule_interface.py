"""The cost model for meta_schedule against the interface that TVM 0.15 to 0.20 have, where no TVM is: a package of the same names, whose
classes call the model in the way that TVM's sources do (python/tvm/meta_schedule/utils.py, cost_model/cost_model.py)."""
import os
import pathlib
import subprocess
import sys
import textwrap

from support import ROOT, FolderTest, fake_library

FILES = {
    "__init__.py": "__version__ = '{version}'\n",
    "tir.py": "class PrimFunc:\n    def __init__(self, text):\n        self.text = text\n",
    "ir/__init__.py": "def structural_hash(node, map_free_vars=False):\n    return len(node.functions)\n",
    "ir/base.py": "def save_json(node):\n    return node.text\n",
    "meta_schedule/__init__.py": "",
    "meta_schedule/cost_model.py": """
        import ctypes
        import numpy as np

        class Handle:  # what TVM keeps of a model: functions, which it calls with pointers
            def __init__(self, f_load=None, f_save=None, f_update=None, predict_func=None, f_as_string=None):
                def f_predict(context, candidates, pointer):
                    array = np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_double)), shape=(len(candidates),))
                    array[:] = predict_func(context, candidates)
                self.handle = (f_load, f_save, f_update, f_predict, f_as_string)

        class PyCostModel:
            _tvm_metadata = {"cls": Handle, "methods": ["load", "save", "update", "predict", "__str__"]}

            def load(self, path):
                raise NotImplementedError

            def save(self, path):
                raise NotImplementedError

            def update(self, context, candidates, results):
                raise NotImplementedError

            def predict(self, context, candidates):
                raise NotImplementedError

            def __str__(self):
                return type(self).__name__
        """,
    "meta_schedule/utils.py": """
        import inspect
        import weakref

        def derived_object(cls):
            base = cls.__base__

            class Derived(base._tvm_metadata["cls"]):
                _cls = cls
                _type = "TVMDerivedObject"

                def __init__(self, *args, **kwargs):
                    self.handle = None
                    self._inst = cls(*args, **kwargs)
                    inst = self._inst
                    super().__init__(*[(lambda *words, name=name: getattr(inst, name)(*words)) for name in base._tvm_metadata["methods"]])
                    self._inst._outer = weakref.ref(self)

                def __getattr__(self, name):
                    result = self._inst.__getattribute__(name)
                    return (lambda *args, **kwargs: result(*args, **kwargs)) if inspect.ismethod(result) else result

                def __setattr__(self, name, value):
                    if name in ("_inst", "key", "handle"):
                        super().__setattr__(name, value)
                    else:
                        self._inst.__setattr__(name, value)
            return Derived
        """,
}
SCRIPT = """
import ctypes, json, sys
import numpy as np
from tvm.tir import PrimFunc
import foretime
from foretime.meta_schedule import ForetimeCostModel

class Module:
    def __init__(self, text):
        self.functions = {"main": PrimFunc(text)}

class Candidate:
    def __init__(self, text):
        self.sch = type("Schedule", (), {"mod": Module(text)})()

class Result:
    def __init__(self, seconds):
        self.run_secs, self.error_msg = (None, "timeout") if seconds is None else ([seconds, seconds], None)

model = ForetimeCostModel(sys.argv[1], library=foretime.Library(ctypes.CDLL(sys.argv[2])))
load, save, update, predict, as_string = model.handle
context = type("TuneContext", (), {"mod": Module("x")})()
candidates = [Candidate("{" + "x" * length) for length in (30, 10, 20)]
speeds = np.full(3, -1.0)
predict(context, candidates, ctypes.c_void_p(speeds.ctypes.data))
assert (speeds > 0).all() and np.argsort(-speeds).tolist() == [1, 2, 0], speeds
update(context, candidates, [Result(0.5), Result(None), Result(0.25)])
outcomes = [json.loads(line) for line in model.records]
assert [outcome.get("runtime") for outcome in outcomes] == [0.5, None, 0.25] and outcomes[1]["failed"], outcomes
save(sys.argv[3])
load(sys.argv[3])
assert model.records == [] and isinstance(as_string(), str)
predict(context, [], ctypes.c_void_p(speeds.ctypes.data))
print("well")
"""


class Interface(FolderTest):
    def run_with(self, version, script):
        for name, text in FILES.items():
            path = self.folder / "tvm" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text).replace("{version}", version))
        bundle = self.folder / "bundle"
        bundle.write_bytes(b"2")
        (self.folder / "saved").unlink(missing_ok=True)  # this bundle is no real one, so it would not be replaced
        path = os.pathsep.join([str(self.folder), str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(
            [sys.executable, "-B", "-c", script, bundle, fake_library(), self.folder / "saved"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )

    def test_models_are_called_as_tvm_calls_them(self):
        for version in ("0.14.0", "0.19.0", "0.20.dev0"):
            done = self.run_with(version, SCRIPT)
            self.assertEqual((done.returncode, done.stdout), (0, "well\n"), done.stderr)

    def test_versions_whose_programs_cannot_be_read_are_refused(self):
        for version in ("0.21.0", "0.26.0", "1.0.dev0"):
            done = self.run_with(version, "import foretime.meta_schedule")
            self.assertIn(
                f"ImportError: TVM {version}: its tvm.ir.save_json writes programs in another form, expected TVM 0.10 to 0.20",
                done.stderr,
            )
