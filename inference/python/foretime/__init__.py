"""Trained cost models of Foretime in Python: numpy in and out, over libforetime.

  foretime.open("model.foretime")          opens a bundle; scores layouts, tiles, schedules and tensor programs
  foretime.rank(scores)                    places of candidates, fastest first
  foretime.read(files, format="layout")    graphs, layouts and run times of data files, as views
  foretime.read_records(file, dags)        tuning records by workload
  foretime.auto_scheduler.ForetimeModel    cost model for TVM's auto_scheduler
  foretime.meta_schedule.ForetimeCostModel cost model for TVM's meta_schedule

Scores are lower for faster candidates; only the two TVM models, as TVM asks, turn that round. The two TVM modules need TVM and
are imported by name; the rest needs numpy and libforetime.so, and never LibTorch.
"""
from __future__ import annotations

from .groups import Files, Group, read
from .library import ABI_VERSION, COLLECTIONS, ForetimeError, Library, load
from .model import Graph, Model, Workload, open, rank
from .records import Records, read_records

__all__ = ["ABI_VERSION", "COLLECTIONS", "Files", "ForetimeError", "Graph", "Group", "Library", "Model", "Records", "Workload", "load",
           "open", "rank", "read", "read_records", "__version__"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        version: bytes = load().version()
        return version.decode()
    raise AttributeError(f"module 'foretime' has no attribute {name!r}")
