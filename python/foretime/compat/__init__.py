"""The folder from which `import wandb`, `import mlflow` and `import optuna` give Foretime's modules of those names.

Agents append it to PYTHONPATH of the programs that they run. By hand:

  PYTHONPATH=$(python3 -m foretime.compat) python3 train.py
  python3 -m foretime.compat train.py --lr=0.1

In a trial Foretime's module is taken even if the package is installed, unless FORETIME_REAL names the package (FORETIME_REAL=wandb,mlflow).
Outside of trials an installed package is taken.
"""
from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Optional

FOLDER = pathlib.Path(__file__).resolve().parent
NAMES = ("wandb", "mlflow", "optuna")


class _SameModule:
    """Loads `wandb.errors` as `foretime.wandb.errors`, so that there is one class of each name."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(self._target)

    def exec_module(self, module: ModuleType) -> None:
        """The module has run under its own name."""


class _Finder:
    """Finds the submodules of the names that `take` gave to Foretime's modules."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None) -> Any:
        top, dot, rest = name.partition(".")
        if not dot or top not in self.names or importlib.util.find_spec(f"foretime.{top}.{rest}") is None:
            return None
        return importlib.machinery.ModuleSpec(name, _SameModule(f"foretime.{top}.{rest}"))  # type: ignore[arg-type]


_finder = _Finder()


def _elsewhere() -> list[str]:
    return [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != FOLDER]


def installed(name: str) -> Optional[ModuleType]:
    """Imports the package of this name that is installed, and returns it; None without one."""
    spec = importlib.machinery.PathFinder.find_spec(name, _elsewhere())
    if spec is None or spec.loader is None or spec.origin is None:  # a folder ./wandb of runs is no package
        return None
    before = sys.modules.get(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def take(name: str) -> ModuleType:
    """Makes `name` the installed package or Foretime's module of that name, and returns it."""
    real = [entry.strip() for entry in os.environ.get("FORETIME_REAL", "").split(",")]
    swept = bool(os.environ.get("FORETIME_TRIAL"))
    module = installed(name) if not swept or name in real else None
    if module is None:
        if swept and name in real:
            raise ModuleNotFoundError(f"No module named {name!r}, which FORETIME_REAL asks for", name=name)
        _finder.names.add(name)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        module = sys.modules[name] = importlib.import_module(f"foretime.{name}")
    return module
