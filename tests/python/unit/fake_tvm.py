"""Stand-ins for TVM of three generations of names: packages with what foretime.meta_schedule uses, and programs made of their classes.

Classes, fields and the way in which a cost model is called follow TVM's public sources: python/tvm/(tir|tirx)/stmt.py and expr.py,
meta_schedule/utils.py, cost_model/cost_model.py and database/database.py there. test_tvm_contract.py compares them.
"""
import importlib
import os
import pathlib
import sys
import textwrap

# generation → version, package of programs, package of MetaSchedule, package of schedules
GENERATIONS = {
    "tvm._ffi": ("0.14.0", "tir", "meta_schedule", "tir"),
    "tvm_ffi": ("0.22.0", "tir", "meta_schedule", "tir"),
    "s_tir": ("0.24.0", "tirx", "s_tir/meta_schedule", "s_tir"),
    "buffers are variables": ("0.27.dev0", "tirx", "s_tir/meta_schedule", "s_tir"),
}

NODES = """
class Node:
    def __init__(self, **fields):
        self.__dict__.update(fields)

NAMES = '''PrimFunc For While IfThenElse AttrStmt LetStmt Bind SeqStmt Evaluate BufferStore BufferLoad Allocate AllocBuffer DeclBuffer
    AssertStmt Buffer BufferType IterVar Range IntImm FloatImm StringImm Var SizeVar Call Op Cast Select Ramp Broadcast Let Not And Or
    Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE Novelty'''.split() + BLOCKS
for _name in NAMES:
    globals()[_name] = type(_name, (Node,), {})
"""
TRANSFORMS = """
def _passes(names):
    for name in names:
        globals()[name] = lambda: lambda module: module
"""
COST_MODEL = """
import ctypes
import numpy as np

class Handle:  # what TVM keeps of a model: functions, which it calls with pointers
    def __init__(self, f_load=None, f_save=None, f_update=None, predict_func=None, *more):
        def f_predict(context, candidates, pointer):
            array = np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_double)), shape=(len(candidates),))
            array[:] = predict_func(context, candidates)
        self.handle = (f_load, f_save, f_update, f_predict)

class PyCostModel:
    _tvm_metadata = {"cls": Handle, "methods": METHODS}

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
"""
UTILS = """
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
"""
DATABASE = """
import types
from PROGRAMS import PrimFunc
import fake_programs

class Workload:  # [hash, length of the program]
    def __init__(self, mod):
        self.mod = mod

    @staticmethod
    def from_json(content):
        return Workload(fake_programs.Module(fake_programs.program(int(content[1]))))

class Trace:
    def __init__(self, lengths):
        self.lengths = lengths

    def apply_to_schedule(self, schedule, remove_postproc):
        assert not remove_postproc  # a program was measured with its post-processing
        for length in self.lengths:
            if length == "Unknown":
                raise RuntimeError("a trace of calls in TVM\\nInternalError: there is no instruction Unknown")
            schedule.mod = fake_programs.Module(fake_programs.program(length))

class TuningRecord:  # [trace, run times, target, arguments]
    @staticmethod
    def from_json(content, workload):
        assert isinstance(workload, Workload)
        return types.SimpleNamespace(trace=Trace(content[0]), run_secs=content[1], target=fake_programs.target(content[2]))
"""
PROGRAMS = """
import types
from PROGRAMS import *
import PROGRAMS as tir

def target(options):
    return types.SimpleNamespace(kind=types.SimpleNamespace(name=options["kind"]), attrs={k: v for k, v in options.items() if k != "kind"})

class Module:
    def __init__(self, *functions):
        self.functions = {f"main{number}": function for number, function in enumerate(functions)}

def variable(name):
    return Var(name=name)

def number(value):
    return IntImm(value=value)

def buffer(name, *shape):
    sizes = [number(size) for size in shape]
    if BUFFERS_ARE_VARIABLES:
        return Var(name=name, ty=BufferType(shape=sizes), shape=sizes)
    return Buffer(name=name, data=variable(name), shape=sizes)

def function(buffers, body):
    if BUFFERS_ARE_VARIABLES:
        return PrimFunc(params=buffers, body=body)
    parameters = [variable(buffer.name) for buffer in buffers]
    return PrimFunc(params=parameters, buffer_map=dict(zip(parameters, buffers)), body=body)

def loop(var, extent, body, kind=0, **annotations):
    return For(loop_var=var, min=number(0), extent=number(extent), kind=kind, body=body, annotations=annotations)

def block(axes, values, body, init=None, allocations=(), predicate=1, **annotations):
    kind = getattr(tir, BLOCKS[0])
    made = kind(iter_vars=axes, body=body, init=init, alloc_buffers=list(allocations), annotations=annotations, name_hint="block")
    return getattr(tir, BLOCKS[1])(iter_values=values, predicate=number(predicate) if isinstance(predicate, int) else predicate, block=made)

def axis(var, extent, reduces=False):
    return IterVar(var=var, dom=Range(min=number(0), extent=number(extent)), iter_type=2 if reduces else 0)

def program(stores):
    '''A program with so many stores.'''
    data, i = buffer("data", 64), variable("i")
    store = BufferStore(buffer=data, indices=[i], value=FloatImm(value=0.5))
    return function([data], loop(i, 64, SeqStmt(seq=[store] * stores) if stores > 1 else store))

def matmul(predicate=1):
    '''A product of matrices, 64 x 64 x 32, tiled by 16, vectorized and unrolled, with its blocks.'''
    a, b, c = buffer("a", 64, 32), buffer("b", 32, 64), buffer("c", 64, 64)
    i0, i1, j, k = (variable(name) for name in ("i0", "i1", "j", "k"))
    vi, vj, vk = (variable(name) for name in ("vi", "vj", "vk"))
    place = [vi, vj]
    product = Mul(a=BufferLoad(buffer=a, indices=[vi, vk]), b=BufferLoad(buffer=b, indices=[vk, vj]))
    update = BufferStore(buffer=c, indices=place, value=Add(a=BufferLoad(buffer=c, indices=place), b=product))
    start = BufferStore(buffer=c, indices=place, value=FloatImm(value=0.0))
    row = Add(a=Mul(a=i0, b=number(16)), b=i1)
    inner = block([axis(vi, 64), axis(vj, 64), axis(vk, 32, True)], [row, j, k], update, start, predicate=predicate)
    nest = loop(i0, 4, loop(i1, 16, loop(k, 32, loop(j, 64, inner, 2))), 1, pragma_auto_unroll_max_step=number(64), pragma_unroll_explicit=1)
    return function([a, b, c], block([], [], nest))

def lowered_matmul():
    '''The same program without blocks.'''
    a, b, c = buffer("a", 64, 32), buffer("b", 32, 64), buffer("c", 64, 64)
    i0, i1, j, k = (variable(name) for name in ("i0", "i1", "j", "k"))
    row = Add(a=Mul(a=i0, b=number(16)), b=i1)
    product = Mul(a=BufferLoad(buffer=a, indices=[row, k]), b=BufferLoad(buffer=b, indices=[k, j]))
    update = BufferStore(buffer=c, indices=[row, j], value=Add(a=BufferLoad(buffer=c, indices=[row, j]), b=product))
    start = BufferStore(buffer=c, indices=[row, j], value=FloatImm(value=0.0))
    first = IfThenElse(condition=EQ(a=k, b=number(0)), then_case=start, else_case=None)
    nest = loop(i0, 4, loop(i1, 16, loop(k, 32, loop(j, 64, SeqStmt(seq=[first, update]), 2))), 1)
    explicit = AttrStmt(attr_key="pragma_unroll_explicit", value=number(1), body=AttrStmt(attr_key="pragma_auto_unroll_max_step", value=number(64), body=nest))
    return function([a, b, c], explicit)
"""
PASSES = "RemoveWeightLayoutRewriteBlock LowerInitBlock PlanAndUpdateBufferAllocationLocation ConvertBlocksToOpaque CompactBufferAllocation LowerMatchBuffer"


def write_package(folder, generation):
    """Writes the packages `tvm` and `fake_programs` of a generation into a folder, and returns its version."""
    version, programs, meta_schedule, schedules = GENERATIONS[generation]
    newest = generation == "buffers are variables"
    blocks = ["SBlock", "SBlockRealize"] if programs == "tirx" else ["Block", "BlockRealize"]
    simplify = "StmtSimplify" if newest else "Simplify"
    name = f"tvm.{programs}"
    methods = ["load", "save", "update", "predict"] + (["__str__"] if programs == "tir" else [])
    schedule = "class Schedule:\n    def __init__(self, mod):\n        self.mod = mod\n"
    files = {
        "tvm/__init__.py": f"__version__ = {version!r}\n",
        "tvm/ir/__init__.py": "" if newest else "def structural_hash(node):\n    return len(node.functions)\n",
        f"tvm/{programs}/__init__.py": f"BLOCKS = {blocks!r}\n{NODES}" + (schedule if schedules == programs else ""),
        f"tvm/{programs}/transform/__init__.py": f"{TRANSFORMS}\n_passes({simplify!r}.split())\n"
        + (f"_passes({PASSES!r}.split())\n" if schedules == programs else ""),
        f"tvm/{meta_schedule}/__init__.py": "",
        f"tvm/{meta_schedule}/cost_model/__init__.py": COST_MODEL.replace("METHODS", repr(methods)),
        "tvm/ir/utils.py" if newest else f"tvm/{meta_schedule}/utils.py": UTILS,
        f"tvm/{meta_schedule}/database/__init__.py": DATABASE.replace("PROGRAMS", name),
        "fake_programs.py": PROGRAMS.replace("PROGRAMS", name).replace("BUFFERS_ARE_VARIABLES", str(newest)),
    }
    if schedules != programs:
        files[f"tvm/{schedules}/__init__.py"] = schedule
        files[f"tvm/{schedules}/transform/__init__.py"] = f"{TRANSFORMS}\n_passes({PASSES!r}.split())\n"
    if newest:
        files["tvm_ffi/__init__.py"] = "def structural_hash(node):\n    return len(node.functions)\n"
    for file, text in files.items():
        path = pathlib.Path(folder) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return version


def load_programs(folder, generation):
    """The module fake_programs of a generation, in this process; `tvm` is as before when this returns."""
    write_package(folder, generation)
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ("tvm", "tvm_ffi")}
    for name in [*kept, "fake_programs"]:
        sys.modules.pop(name, None)
    sys.path.insert(0, os.fspath(folder))
    importlib.invalidate_caches()
    try:
        return importlib.import_module("fake_programs")
    finally:
        sys.path.remove(os.fspath(folder))
        for name in [name for name in sys.modules if name.split(".")[0] in ("tvm", "tvm_ffi", "fake_programs")]:
            del sys.modules[name]
        sys.modules.update(kept)
