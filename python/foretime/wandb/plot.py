"""wandb.plot: charts are kept as files with their name and arguments."""
from __future__ import annotations

from typing import Any, Callable

from .media import Plot


def __getattr__(name: str) -> Callable[..., Plot]:
    if name.startswith("_"):
        raise AttributeError(name)
    return lambda *arguments, **options: Plot(name, arguments, options)
