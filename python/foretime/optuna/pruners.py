"""Pruners have no effect: the sweep file's early_terminate stops trials."""
from __future__ import annotations

from typing import Any

from ..ignored import ignored_class


def __getattr__(name: str) -> Any:
    return ignored_class(__name__, name)
