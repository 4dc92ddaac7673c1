"""Distributions of ask(), which have no effect: the sweep file has them."""
from __future__ import annotations

from typing import Any

from ..ignored import ignored_class


def __getattr__(name: str) -> Any:
    return ignored_class(__name__, name)
