"""Trained cost models of Foretime in Python: numpy in and out, over libforetime.

  foretime.open("model.foretime")          opens a bundle; scores layouts, tiles, schedules and tensor programs
  foretime.rank(scores)                    places of candidates, fastest first
  foretime.read(files, format="layout")    graphs, layouts and run times of data files, as views
  foretime.read_records(file, dags)        tuning records by workload
  foretime.train(settings)                 trains by `foretime train`; foretime.Run(path) reads what it left
  foretime.sweep(file), foretime.Queue()   sweeps and jobs; foretime.command(…) any other command
  foretime.pack_table(…), TableModel(…)    tables of measurements, and models of them
  foretime.Trial()                         makes any training script a trial of a sweep
  foretime.wandb, .optuna, .mlflow         what scripts of W&B, Optuna and MLflow import in a trial (foretime.compat)
  foretime.lightning.ForetimeLogger        a logger of Lightning
  foretime.auto_scheduler.ForetimeModel    cost model for TVM's auto_scheduler
  foretime.meta_schedule.ForetimeCostModel cost model for TVM's meta_schedule

Scores are lower for faster candidates; only the two TVM models, as TVM asks, turn that round. The two TVM modules need TVM and
are imported by name; Trial needs neither numpy nor the library, the rest needs numpy and libforetime.so, and never LibTorch;
training and the queue run the program `foretime`.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from .library import ABI_VERSION, COLLECTIONS, ForetimeError, Library, load
from .programs import CommandError, command
from .settings_file import read_settings
from .trial import Trial

try:
    from .groups import Files, Group, read
    from .model import Graph, Model, Workload, open, rank
    from .queue import Queue, sweep
    from .records import Records, read_records
    from .runs import Run, read_safetensors, train
    from .table import Table
    from .tables import TableModel, pack_table
except ModuleNotFoundError as _failure:  # a script that only makes a Trial needs no numpy
    if _failure.name != "numpy":
        raise

__all__ = [
    "ABI_VERSION",
    "COLLECTIONS",
    "CommandError",
    "Files",
    "ForetimeError",
    "Graph",
    "Group",
    "Library",
    "Model",
    "Queue",
    "Records",
    "Run",
    "Table",
    "TableModel",
    "Trial",
    "Workload",
    "command",
    "load",
    "open",
    "pack_table",
    "rank",
    "read",
    "read_records",
    "read_safetensors",
    "read_settings",
    "sweep",
    "train",
    "__version__",
]

if TYPE_CHECKING:
    __version__: str
else:  # made when it is asked for; hidden, because checkers would take it for any name

    def __getattr__(name: str) -> str:
        if name == "__version__":
            return load().version().decode()
        if name in __all__:
            raise ModuleNotFoundError(f"foretime.{name} needs numpy, which this Python does not have", name="numpy")
        raise AttributeError(f"module 'foretime' has no attribute {name!r}")
