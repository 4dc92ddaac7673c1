"""Studies. In a trial of Foretime `optimize` calls the objective once, with the sweep's parameters, and its value is the trial's result.

By hand the parameters are drawn at random, trial by trial, in this process. The run folder then has a sweep file of what the objective
suggested, for `foretime submit`.
"""
from __future__ import annotations

import datetime
import enum
import json
import pathlib
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from ..logged_run import LoggedRun, current, flat_items, in_trial, number_of, plain_json, write_json
from .exceptions import TrialPruned
from .trial import FrozenTrial, Trial, TrialState


class StudyDirection(enum.Enum):
    """Whether smaller or larger values are better."""

    NOT_SET = 0
    MINIMIZE = 1
    MAXIMIZE = 2


def _direction(word: Union[str, StudyDirection, None]) -> StudyDirection:
    if isinstance(word, StudyDirection):
        return word
    if word not in (None, "minimize", "maximize"):
        raise ValueError(f"direction: found {word!r}, expected minimize or maximize")
    return StudyDirection.MAXIMIZE if word == "maximize" else StudyDirection.MINIMIZE


class Study:
    """A study with Optuna's attributes and methods."""

    def __init__(
        self,
        study_name: Optional[str] = None,
        directions: Sequence[StudyDirection] = (StudyDirection.MINIMIZE,),
        sampler: Any = None,
        pruner: Any = None,
    ) -> None:
        self.study_name = study_name or "study"
        self.directions = list(directions)
        self.sampler, self.pruner = sampler, pruner
        self.user_attrs: dict[str, Any] = {}
        self.system_attrs: dict[str, Any] = {}
        self.metric_names: Optional[list[str]] = None
        self._trials: list[FrozenTrial] = []
        self._queued: list[dict[str, Any]] = []
        seed = getattr(sampler, "options", {}).get("seed")
        self._chance = random.Random(seed)
        self._logged: Optional[LoggedRun] = None
        self._stopped = False

    @property
    def direction(self) -> StudyDirection:
        """The direction of the first objective."""
        return self.directions[0]

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials of this process."""
        return list(self._trials)

    def get_trials(self, deepcopy: bool = True, states: Optional[Sequence[TrialState]] = None) -> list[FrozenTrial]:
        """Returns the trials of this process that are in one of the states."""
        return [trial for trial in self._trials if states is None or trial.state in states]

    @property
    def best_trials(self) -> list[FrozenTrial]:
        """The trials that no other one is better than in every objective."""
        complete = [trial for trial in self._trials if trial.state == TrialState.COMPLETE and trial.values]
        signs = [-1 if direction == StudyDirection.MAXIMIZE else 1 for direction in self.directions]

        def better(first: FrozenTrial, second: FrozenTrial) -> bool:
            pairs = [(sign * a, sign * b) for sign, a, b in zip(signs, first.values or [], second.values or [])]
            return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

        return [trial for trial in complete if not any(better(other, trial) for other in complete)]

    @property
    def best_trial(self) -> FrozenTrial:
        """The best trial. ValueError: none is complete."""
        complete = [trial for trial in self._trials if trial.state == TrialState.COMPLETE and trial.value is not None]
        if not complete:
            raise ValueError("No trials are completed yet.")
        sign = -1 if self.direction == StudyDirection.MAXIMIZE else 1
        return min(complete, key=lambda trial: sign * float(trial.value or 0.0))

    @property
    def best_value(self) -> float:
        """The objective of the best trial."""
        return float(self.best_trial.value or 0.0)

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of the best trial."""
        return self.best_trial.params

    def trials_dataframe(self, *arguments: Any, **options: Any) -> Any:
        """Returns the trials as a DataFrame."""
        import pandas

        return pandas.DataFrame(
            [
                {
                    "number": trial.number,
                    "value": trial.value,
                    **{f"params_{name}": value for name, value in trial.params.items()},
                    "state": trial.state.name,
                }
                for trial in self._trials
            ]
        )

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps a value with the study."""
        self.user_attrs[key] = value

    def set_metric_names(self, metric_names: Sequence[str]) -> None:
        """Names the objectives."""
        self.metric_names = list(metric_names)

    def enqueue_trial(self, params: Mapping[str, Any], *arguments: Any, **options: Any) -> None:
        """By hand: the next trial takes these parameters. In a sweep it has no effect."""
        self._queued.append(dict(params))

    def add_trial(self, trial: FrozenTrial) -> None:
        """Adds a trial that has ended."""
        trial.number = len(self._trials)
        self._trials.append(trial)

    def add_trials(self, trials: Sequence[FrozenTrial]) -> None:
        """Adds trials that have ended."""
        for trial in trials:
            self.add_trial(trial)

    def stop(self) -> None:
        """Ends `optimize` after this trial."""
        self._stopped = True

    # Running.

    def _run(self) -> LoggedRun:
        if self._logged is None or self._logged._closed:
            self._logged = current(self.study_name)
            if not in_trial():
                print(
                    f"foretime: optuna study {self.study_name}: random search in this process: {self._logged.directory}",
                    file=sys.stderr,
                    flush=True,
                )
                self._logged.write_description(
                    parameters={}, directory=str(self._logged.directory), resume=None, job=self.study_name, trial=0
                )
            elif self._logged.goal and (self._logged.goal == "maximize") != (self.direction == StudyDirection.MAXIMIZE):
                self._logged.say(
                    f"optuna: the study's direction is {self.direction.name.lower()}, the sweep's goal {self._logged.goal}",
                    once="direction",
                )
        return self._logged

    def _name(self, place: int = 0) -> str:
        if place:
            return self.metric_names[place] if self.metric_names else f"value_{place}"
        return (self._logged.metric if self._logged is not None else "") or (
            self.metric_names[0] if self.metric_names else "value"
        )

    def ask(self, fixed_distributions: Any = None) -> Trial:
        """Returns the next trial. In a sweep there is one: the second call reports what is known and ends the program."""
        logged = self._run()
        if in_trial() and self._trials:
            logged.end()
            raise SystemExit(0)
        frozen = FrozenTrial(logged.number if in_trial() else len(self._trials))
        self._trials.append(frozen)
        if not in_trial():
            return Trial(frozen, self._queued.pop(0) if self._queued else {}, self._chance, self)
        chosen = {**logged.parameters, **flat_items(logged.parameters)}
        return Trial(
            frozen,
            chosen,
            random.Random(logged.job),
            self,
            lambda step, value: logged.log(step, {self._name(): value}, stops=False),
            lambda: logged.asked_to_stop,
            lambda text, once: logged.say(text, once),
        )

    def tell(
        self,
        trial: Union[Trial, int],
        values: Any = None,
        state: Optional[TrialState] = None,
        skip_if_finished: bool = False,
    ) -> FrozenTrial:
        """Ends a trial with its value, or its values."""
        frozen = trial._frozen if isinstance(trial, Trial) else self._trials[trial]
        listed = [] if values is None else list(values) if isinstance(values, (list, tuple)) else [values]
        numbers = [number_of(value) for value in listed]
        frozen.datetime_complete = datetime.datetime.now()
        frozen.state = state or (TrialState.FAIL if not numbers or None in numbers else TrialState.COMPLETE)
        frozen.values = [float(number) for number in numbers if number is not None] or None
        if frozen.state == TrialState.PRUNED and frozen.values is None and frozen.intermediate_values:
            frozen.values = [frozen.intermediate_values[max(frozen.intermediate_values)]]
        self._keep(frozen)
        return frozen

    def _keep(self, frozen: FrozenTrial) -> None:
        logged = self._run()
        values = {self._name(place): value for place, value in enumerate(frozen.values or [])}
        attributes = {
            name: number
            for name, number in ((name, number_of(value)) for name, value in frozen.user_attrs.items())
            if number is not None
        }
        if in_trial():
            if frozen.state != TrialState.FAIL:
                logged.result({**attributes, **values})
            return
        logged.log(frozen.number, {**attributes, **values})
        write_json(
            logged.files / "trials.json",
            [
                {
                    "number": trial.number,
                    "state": trial.state.name,
                    "values": trial.values,
                    "params": trial.params,
                    "intermediate_values": trial.intermediate_values,
                    "user_attrs": trial.user_attrs,
                }
                for trial in self._trials
            ],
        )

    def optimize(
        self,
        func: Callable[[Trial], Any],
        n_trials: Optional[int] = None,
        timeout: Optional[float] = None,
        n_jobs: int = 1,
        catch: Any = (),
        callbacks: Any = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
    ) -> None:
        """Calls the objective. In a sweep once; by hand n_trials times, or until `timeout` seconds have passed."""
        if in_trial():
            if not self._trials:
                self._one(func, (), callbacks or ())
            return
        caught = catch if isinstance(catch, tuple) else tuple(catch) if isinstance(catch, (list, set)) else (catch,)
        begin, self._stopped, done = time.monotonic(), False, 0
        while (
            not self._stopped
            and (n_trials is None or done < n_trials)
            and (timeout is None or time.monotonic() - begin < timeout)
        ):
            self._one(func, caught, callbacks or ())
            done += 1
        self._end(n_trials or done)

    def _one(
        self, objective: Callable[[Trial], Any], caught: tuple[type[BaseException], ...], callbacks: Sequence[Any]
    ) -> None:
        trial = self.ask()
        try:
            values = objective(trial)
        except TrialPruned:
            frozen = self.tell(trial, state=TrialState.PRUNED)
            if self._run().asked_to_stop:
                self._run().stop()
        except Exception as error:
            self.tell(trial, state=TrialState.FAIL)
            if not isinstance(error, caught):
                raise
            traceback.print_exc()
            return
        else:
            frozen = self.tell(trial, values)
        print(
            f"foretime: optuna trial {frozen.number}: {frozen.state.name.lower()}, value {frozen.value}, parameters {frozen.params}",
            file=sys.stderr,
            flush=True,
        )
        for callback in callbacks:
            callback(self, frozen)

    def _end(self, trials: int) -> None:
        """Writes the sweep file."""
        logged = self._run()
        parameters: dict[str, Any] = {}
        for trial in self._trials:
            for name, entry in trial.distributions.items():
                if all(
                    value is None or isinstance(value, (str, int, float, bool)) for value in entry.get("values", [])
                ):
                    parameters[name] = entry
        if not parameters:
            return
        goal = "maximize" if self.direction == StudyDirection.MAXIMIZE else "minimize"
        lines = [
            f"program: {json.dumps(pathlib.Path(sys.argv[0]).name)}",
            'command: ["${env}", "${interpreter}", "${program}"]',
            "method: bayes",
            f"run_cap: {trials}",
            f"metric: {{name: {json.dumps(self._name())}, goal: {goal}}}",
            "parameters:",
        ]
        lines += [
            f"  {json.dumps(name)}: {json.dumps(plain_json(entry))}" for name, entry in sorted(parameters.items())
        ]
        file = logged.directory / "sweep.yaml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        logged.say(
            f"optuna: {file} sweeps these parameters: foretime submit {file}, then foretime agent --programs .",
            once=str(file),
        )


def create_study(
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    study_name: Optional[str] = None,
    direction: Any = None,
    load_if_exists: bool = False,
    directions: Any = None,
) -> Study:
    """Returns a new study. Storage, sampler and pruner have no effect, but the sampler's seed."""
    words = list(directions) if directions is not None else [direction]
    return Study(study_name, [_direction(word) for word in words], sampler, pruner)


def load_study(
    *, study_name: Optional[str] = None, storage: Any = None, sampler: Any = None, pruner: Any = None
) -> Study:
    """Returns a new study of that name: nothing is loaded."""
    return Study(study_name, sampler=sampler, pruner=pruner)


def delete_study(*arguments: Any, **options: Any) -> None:
    """Has no effect."""


copy_study = delete_study


def get_all_study_summaries(*arguments: Any, **options: Any) -> list[Any]:
    """Returns none."""
    return []


get_all_study_names = get_all_study_summaries


class MaxTrialsCallback:
    """Ends `optimize` after a number of trials."""

    def __init__(self, n_trials: int, states: Any = (TrialState.COMPLETE,)) -> None:
        self._most, self._states = n_trials, states

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        if len(study.get_trials(states=self._states)) >= self._most:
            study.stop()
