"""Trained cost models of Foretime for tuners, over libforetime and ctypes.

  foretime.Model                           opens a bundle and scores graphs, schedules and tensor programs
  foretime.auto_scheduler.ForetimeModel    cost model for TVM's auto_scheduler
  foretime.meta_schedule.ForetimeCostModel cost model for TVM's meta_schedule

Scores are lower for faster candidates; only the two TVM models, as TVM asks, turn that round. The two TVM modules need TVM and
are imported by name; the rest needs numpy and libforetime.so.
"""
from .library import ABI_VERSION, ForetimeError, Graph, Library, Model, Workload, load, rank

__all__ = ["ABI_VERSION", "ForetimeError", "Graph", "Library", "Model", "Workload", "load", "rank"]
