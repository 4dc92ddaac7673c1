"""Callbacks of Keras that log to the active run."""
from ...keras import WandbCallback, WandbEvalCallback, WandbMetricsLogger, WandbModelCheckpoint

__all__ = ["WandbCallback", "WandbEvalCallback", "WandbMetricsLogger", "WandbModelCheckpoint"]
