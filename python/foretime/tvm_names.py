"""TVM's names, which differ between its releases. Nothing else in this package knows them.

  TVM          programs   MetaSchedule              objects   text of modules
  0.10 to 0.20 tvm.tir    tvm.meta_schedule         tvm._ffi  numbered nodes
  0.21 to 0.23 tvm.tir    tvm.meta_schedule         tvm_ffi   tvm-ffi's JSON
  0.24 on      tvm.tirx   tvm.s_tir.meta_schedule   tvm_ffi   tvm-ffi's JSON

Modules are looked up by name, never by version, because a checkout of TVM can carry the number of the last release.
"""
from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Optional

GENERATIONS = (("tvm.tirx", "tvm.s_tir.meta_schedule", "tvm.s_tir"), ("tvm.tir", "tvm.meta_schedule", "tvm.tir"))

# Of the passes after which TVM computes its own features of programs (PassListForPerStoreFeature in per_store_feature.cc)
# those that change programs for CPUs: they take blocks apart, and shrink buffers to the part that is used.
LOWERING = (
    "RemoveWeightLayoutRewriteBlock",
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "Simplify",
    "LowerMatchBuffer",
    "Simplify",
)
OTHER_NAMES = {"Simplify": "StmtSimplify"}  # from TVM 0.26 on


@dataclass(frozen=True)
class Names:
    """What this package uses of an imported TVM. `passes`: LOWERING as passes of this TVM."""

    version: str
    prim_func: Any
    schedule: Any
    structural_hash: Any
    py_cost_model: Any
    derived_object: Any
    workload: Any
    tuning_record: Any
    passes: tuple[Any, ...]


def module_of(name: str) -> Optional[ModuleType]:
    """The module, or None where this TVM has none of this name. An ImportError inside of the module is passed on."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        return None


def find_pass(transforms: Sequence[ModuleType], name: str) -> Any:
    """The pass of LOWERING from the first module that has it. Raises AttributeError where none has."""
    for transform in transforms:
        for known in (name, OTHER_NAMES.get(name, name)):
            if hasattr(transform, known):
                return getattr(transform, known)()
    raise AttributeError(f"no pass {name} in {', '.join(module.__name__ for module in transforms)}")


def find_attribute(name: str, *modules: str) -> Any:
    """The attribute of the first module that has it. Raises AttributeError where none has."""
    for module in filter(None, map(module_of, modules)):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"no {name} in {', '.join(modules)}")


def find_names() -> Names:
    """The names of the TVM that `import tvm` gives. Raises ImportError where it is none that has MetaSchedule."""
    tvm = importlib.import_module("tvm")
    version = str(getattr(tvm, "__version__", "unknown"))
    for programs, meta_schedule, scheduling in GENERATIONS:
        tir = module_of(programs)
        if tir is None or module_of(meta_schedule) is None:
            continue
        schedules = importlib.import_module(scheduling)
        cost_model, database = (
            importlib.import_module(f"{meta_schedule}.{part}") for part in ("cost_model", "database")
        )
        transforms = [
            module for module in map(module_of, (f"{scheduling}.transform", f"{programs}.transform")) if module
        ]
        return Names(
            version,
            tir.PrimFunc,
            schedules.Schedule,
            find_attribute("structural_hash", "tvm.ir", "tvm_ffi"),
            cost_model.PyCostModel,
            find_attribute("derived_object", f"{meta_schedule}.utils", "tvm.ir.utils"),
            database.Workload,
            database.TuningRecord,
            tuple(find_pass(transforms, name) for name in LOWERING),
        )
    raise ImportError(
        f"TVM {version} has no MetaSchedule under the names of TVM 0.10 and later "
        f"({' or '.join(meta_schedule for _, meta_schedule, _ in GENERATIONS)})",
        name="tvm",
    )
