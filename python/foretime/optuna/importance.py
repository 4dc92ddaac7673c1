"""optuna.importance: importances are not computed."""
from __future__ import annotations

from typing import Any


def get_param_importances(*arguments: Any, **options: Any) -> dict[str, float]:
    """Returns no importances."""
    return {}
