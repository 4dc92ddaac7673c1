"""Callback of XGBoost that logs to the active run."""
from __future__ import annotations

import importlib
from typing import Any

from .. import wandb


def _base() -> Any:
    try:
        return importlib.import_module("xgboost.callback").TrainingCallback
    except (ImportError, AttributeError):
        return object


_Callback: Any = _base()


class WandbCallback(_Callback):  # type: ignore[misc]
    """Logs DATA-METRIC at each iteration."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Logs an iteration."""
        row = {
            f"{data}-{metric}": values[-1] for data, metrics in evals_log.items() for metric, values in metrics.items()
        }
        if wandb.run is not None and row:
            wandb.run.log({**row, "epoch": epoch})
        return False
