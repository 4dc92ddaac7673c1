"""wandb.sklearn: charts of models are not carried."""
from __future__ import annotations

from typing import Any, Callable

from .. import wandb


def __getattr__(name: str) -> Callable[..., None]:
    if not name.startswith("plot_"):
        raise AttributeError(name)

    def plot(*arguments: Any, **options: Any) -> None:
        if wandb.run is not None:
            wandb.run._logged.say("wandb.sklearn: charts are not carried", once="wandb.sklearn")

    return plot
