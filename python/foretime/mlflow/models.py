"""mlflow.models: signatures are not kept."""
from __future__ import annotations

from typing import Any

from ..ignored import ignored_class


def infer_signature(*arguments: Any, **options: Any) -> None:
    """Returns None."""


def __getattr__(name: str) -> Any:
    return ignored_class(__name__, name)
