"""Trials of Optuna's kind. In a trial of Foretime, suggest_… returns what the sweep chose."""
from __future__ import annotations

import datetime
import enum
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from ..logged_run import number_of


class TrialState(enum.Enum):
    """The states of a trial."""

    RUNNING = 0
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3
    WAITING = 4

    def is_finished(self) -> bool:
        """Returns whether the trial has ended."""
        return self not in (TrialState.RUNNING, TrialState.WAITING)


class FrozenTrial:
    """What is known of a trial."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = TrialState.RUNNING
        self.values: Optional[list[float]] = None
        self.params: dict[str, Any] = {}
        self.distributions: dict[str, dict[str, Any]] = {}  # in the grammar of sweep files
        self.intermediate_values: dict[int, float] = {}
        self.user_attrs: dict[str, Any] = {}
        self.system_attrs: dict[str, Any] = {}
        self.datetime_start: Optional[datetime.datetime] = datetime.datetime.now()
        self.datetime_complete: Optional[datetime.datetime] = None

    def __repr__(self) -> str:
        return f"FrozenTrial(number={self.number}, state={self.state}, values={self.values}, params={self.params})"

    @property
    def value(self) -> Optional[float]:
        """The objective; None while it is unknown."""
        return self.values[0] if self.values else None

    @property
    def last_step(self) -> Optional[int]:
        """The last step that was reported."""
        return max(self.intermediate_values) if self.intermediate_values else None

    @property
    def duration(self) -> Optional[datetime.timedelta]:
        """How long it took."""
        ended = self.datetime_complete
        return ended - self.datetime_start if ended is not None and self.datetime_start is not None else None


class Trial:
    """What an objective gets. `chosen`: parameters with a value; others are drawn from `chance`."""

    def __init__(
        self,
        frozen: FrozenTrial,
        chosen: Mapping[str, Any],
        chance: random.Random,
        study: Any = None,
        report: Optional[Callable[[int, float], None]] = None,
        stops: Optional[Callable[[], bool]] = None,
        say: Optional[Callable[[str, str], None]] = None,
    ) -> None:
        self._frozen, self._chosen, self._chance, self.study = frozen, chosen, chance, study
        self._report, self._stops, self._say = report, stops, say

    @property
    def number(self) -> int:
        """The number of the trial."""
        return self._frozen.number

    @property
    def params(self) -> dict[str, Any]:
        """The parameters so far."""
        return self._frozen.params

    @property
    def distributions(self) -> dict[str, Any]:
        """The distributions so far, in the grammar of sweep files."""
        return self._frozen.distributions

    @property
    def user_attrs(self) -> dict[str, Any]:
        """What set_user_attr set."""
        return self._frozen.user_attrs

    @property
    def system_attrs(self) -> dict[str, Any]:
        """What set_system_attr set."""
        return self._frozen.system_attrs

    @property
    def datetime_start(self) -> Optional[datetime.datetime]:
        """When it began."""
        return self._frozen.datetime_start

    def _notice(self, text: str, once: str) -> None:
        if self._say is not None:
            self._say(text, once)

    def _take(
        self,
        name: str,
        entry: dict[str, Any],
        draw: Callable[[], Any],
        kind: Callable[[Any], Any],
        fits: Callable[[Any], bool],
    ) -> Any:
        frozen = self._frozen
        frozen.distributions[name] = entry
        if name in frozen.params:
            return frozen.params[name]
        if name in self._chosen:
            value = kind(self._chosen[name])
            if not fits(value):
                self._notice(
                    f"{name}: the sweep chose {value!r}, outside of what the program suggests: {entry}", f"fits {name}"
                )
        else:
            value = draw()
            if self._chosen:
                self._notice(f"{name}: not among the sweep's parameters: drawn at random: {value!r}", f"draws {name}")
        frozen.params[name] = value
        return value

    def suggest_float(
        self, name: str, low: float, high: float, *, step: Optional[float] = None, log: bool = False
    ) -> float:
        """Returns a number from low to high."""

        def draw() -> float:
            if log:
                return math.exp(self._chance.uniform(math.log(low), math.log(high)))
            if step:
                return low + step * self._chance.randint(0, int((high - low) / step + 1e-9))
            return self._chance.uniform(low, high)

        entry: dict[str, Any] = {"distribution": "uniform", "min": low, "max": high}
        if log:
            entry["distribution"] = "log_uniform_values"
        elif step:
            entry.update(distribution="q_uniform", q=step)
        slack = 1e-9 * max(abs(low), abs(high))
        value: float = self._take(name, entry, draw, float, lambda found: bool(low - slack <= found <= high + slack))
        return value

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        """Returns a number from low to high."""
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        """Returns a number from low to high, uniform in its logarithm."""
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        """Returns low plus a multiple of q."""
        return self.suggest_float(name, low, high, step=q)

    def suggest_int(self, name: str, low: int, high: int, step: int = 1, log: bool = False) -> int:
        """Returns a whole number from low to high."""

        def draw() -> int:
            if log:
                return min(high, max(low, round(math.exp(self._chance.uniform(math.log(low), math.log(high))))))
            return self._chance.randrange(low, high + 1, step)

        entry: dict[str, Any] = {"distribution": "int_uniform", "min": low, "max": high}
        if log:
            entry.update(distribution="q_log_uniform_values", q=1)
        elif step != 1:
            entry = {"values": list(range(low, high + 1, step))}
        value: int = self._take(
            name, entry, draw, lambda found: int(round(float(found))), lambda found: bool(low <= found <= high)
        )
        return value

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Returns one of the choices."""

        def kind(found: Any) -> Any:
            return next((choice for choice in choices if choice == found or str(choice) == str(found)), found)

        return self._take(
            name,
            {"values": list(choices)},
            lambda: self._chance.choice(list(choices)),
            kind,
            lambda found: found in choices,
        )

    def report(self, value: float, step: int) -> None:
        """Reports the objective at a step."""
        number = number_of(value)
        if number is None:
            raise TypeError(f"report: found {value!r}, expected a number")
        self._frozen.intermediate_values[int(step)] = number
        if self._report is not None:
            self._report(int(step), number)

    def should_prune(self) -> bool:
        """Whether the agent asked the trial to end; False outside of a sweep."""
        return self._stops is not None and self._stops()

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps a value with the trial."""
        self._frozen.user_attrs[key] = value

    def set_system_attr(self, key: str, value: Any) -> None:
        """Keeps a value with the trial."""
        self._frozen.system_attrs[key] = value


class FixedTrial(Trial):
    """A trial with given parameters, outside of a study."""

    def __init__(self, params: Mapping[str, Any], number: int = 0) -> None:
        super().__init__(FrozenTrial(number), dict(params), random.Random(0))


def create_trial(
    *,
    state: TrialState = TrialState.COMPLETE,
    value: Optional[float] = None,
    values: Optional[Sequence[float]] = None,
    params: Optional[Mapping[str, Any]] = None,
    intermediate_values: Optional[Mapping[int, float]] = None,
    user_attrs: Optional[Mapping[str, Any]] = None,
    **options: Any,
) -> FrozenTrial:
    """Returns a trial that has ended."""
    trial = FrozenTrial(0)
    trial.state, trial.values = state, list(values) if values is not None else None if value is None else [value]
    trial.params.update(params or {})
    trial.intermediate_values.update(intermediate_values or {})
    trial.user_attrs.update(user_attrs or {})
    return trial


BaseTrial = Union[Trial, FrozenTrial]
