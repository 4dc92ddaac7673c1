"""What a metric's entry in the summary is: its last value, or what define_metric asks for."""
from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ..logged_run import Number
from .errors import UsageError
from .summary import Summary

KINDS = ("min", "max", "mean", "best", "last", "first", "copy", "none")


class Metric:
    """What define_metric returns."""

    def __init__(
        self, name: str, step_metric: Optional[str], kinds: Sequence[str], goal: Optional[str], hidden: bool
    ) -> None:
        self.name, self.step_metric, self.summary, self.goal, self.hidden = (
            name,
            step_metric,
            tuple(kinds),
            goal,
            hidden,
        )


class Metrics:
    """The definitions of a run's metrics, and what they have seen."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._defined: dict[str, Metric] = {}
        self._sums: dict[str, tuple[float, int]] = {}

    def define(
        self, name: str, step_metric: Any, kinds: Optional[Union[str, Sequence[str]]], goal: Optional[str], hidden: bool
    ) -> Metric:
        """Adds a definition. A name may end in *."""
        words = [word.strip() for word in kinds.split(",")] if isinstance(kinds, str) else list(kinds or [])
        for word in words:
            if word not in KINDS:
                raise UsageError(f"define_metric: summary: found {word!r}, expected some of {', '.join(KINDS)}")
        if goal not in (None, "minimize", "maximize"):
            raise UsageError(f"define_metric: goal: found {goal!r}, expected minimize or maximize")
        steps = step_metric.name if isinstance(step_metric, Metric) else step_metric
        metric = self._defined[name] = Metric(name, steps, words, goal, hidden)
        return metric

    def _definition(self, name: str) -> Optional[Metric]:
        if name in self._defined:
            return self._defined[name]
        return next(
            (
                metric
                for pattern, metric in self._defined.items()
                if "*" in pattern and fnmatch.fnmatchcase(name, pattern)
            ),
            None,
        )

    def step_of(self, row: Mapping[str, Number]) -> Optional[int]:
        """Returns the row's step where one metric is the step of all others, as Lightning's logger has it."""
        everything = self._defined.get("*")
        step = row.get(everything.step_metric) if everything is not None and everything.step_metric else None
        return int(step) if step is not None and math.isfinite(step) and step >= 0 else None

    def note(self, name: str, value: Number) -> None:
        """Takes a logged value into the summary."""
        metric = self._definition(name)
        if metric is None or not metric.summary or metric.summary == ("copy",):
            self._summary._values[name] = value
            return
        if "none" in metric.summary:
            return
        entry = self._summary._values.get(name)
        entry = dict(entry) if isinstance(entry, dict) else {}
        for kind in metric.summary:
            entry[kind] = self._combined(kind, name, metric.goal, entry.get(kind), value)
        self._summary._values[name] = entry

    def _combined(self, kind: str, name: str, goal: Optional[str], before: Optional[Number], value: Number) -> Number:
        if kind == "mean" and math.isfinite(value):
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + value, count + 1)
            return (total + value) / (count + 1)
        if before is None or kind in ("last", "copy"):
            return value
        if kind in ("first", "mean") or not math.isfinite(value):
            return before
        if not math.isfinite(before):
            return value
        smaller = kind == "min" or (kind == "best" and goal != "maximize")
        return min(before, value) if smaller else max(before, value)

    def chosen(self, name: str, entry: dict[str, Any]) -> Optional[Any]:
        """Returns the value that stands for a metric with several summaries: the first one that was asked for."""
        metric = self._definition(name)
        return next((entry[kind] for kind in metric.summary if kind in entry), None) if metric is not None else None
