"""wandb.Settings: kept, and otherwise of no effect, except `mode`."""
from __future__ import annotations

from typing import Any


class Settings:
    """Any settings by attribute; None for those that were not set."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def update(self, *maps: Any, **values: Any) -> None:
        """Sets several."""
        for one in maps:
            self.__dict__.update(one if isinstance(one, dict) else vars(one))
        self.__dict__.update(values)
