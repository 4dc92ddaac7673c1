"""Callback of LightGBM that logs to the active run."""
from __future__ import annotations

from typing import Any, Callable

from .. import wandb


def wandb_callback(*arguments: Any, **options: Any) -> Callable[[Any], None]:
    """Returns a callback that logs DATA_METRIC at each iteration."""

    def log(environment: Any) -> None:
        if wandb.run is not None:
            wandb.run.log({f"{found[0]}_{found[1]}": found[2] for found in environment.evaluation_result_list or []})

    return log


def log_summary(*arguments: Any, **options: Any) -> None:
    """Has no effect."""
