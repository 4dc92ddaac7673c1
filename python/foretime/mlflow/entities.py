"""mlflow.entities, as far as calls return them."""
from __future__ import annotations

from typing import Any

from ..ignored import ignored_class


class Experiment:
    """A name of runs."""

    def __init__(self, name: str) -> None:
        self.name = self.experiment_id = name
        self.artifact_location, self.lifecycle_stage = "", "active"
        self.tags: dict[str, str] = {}
        self.version = "1"


class Metric:
    """A number at a step."""

    def __init__(self, key: str, value: float, timestamp: int = 0, step: int = 0, **options: Any) -> None:
        self.key, self.value, self.timestamp, self.step = key, value, timestamp, step


class Param:
    """A parameter."""

    def __init__(self, key: str, value: Any) -> None:
        self.key, self.value = key, value


class RunTag(Param):
    """A tag."""


class RunStatus:
    """The states of a run."""

    RUNNING, SCHEDULED, FINISHED, FAILED, KILLED = 1, 2, 3, 4, 5

    @staticmethod
    def to_string(status: Any) -> str:
        """Returns the word of a state."""
        return {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}.get(status, str(status))


def __getattr__(name: str) -> Any:
    return ignored_class(__name__, name)
