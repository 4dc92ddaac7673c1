"""Callbacks that report to a trial and end it when the agent asks for it. Other integrations have no effect."""
from __future__ import annotations

import importlib
import sys
from typing import Any

from ..ignored import ignored_class
from ..logged_run import number_of
from .exceptions import TrialPruned
from .trial import Trial


def _report(trial: Trial, value: Any, step: int, what: str) -> None:
    number = number_of(value)
    if number is None:
        return
    trial.report(number, step)
    if trial.should_prune():
        raise TrialPruned(f"Trial was pruned at {what} {step}.")


class _Lightning:
    """Reports `monitor` after each validation of Lightning."""

    def __init__(self, trial: Trial, monitor: str) -> None:
        super().__init__()
        self._trial, self.monitor = trial, monitor

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Reports the metric, but for the check before the training."""
        if not getattr(trainer, "sanity_checking", False):
            _report(self._trial, trainer.callback_metrics.get(self.monitor), trainer.current_epoch, "epoch")

    def check_pruned(self) -> None:
        """Has no effect: one process reports."""


class _Keras:
    """Reports `monitor` after each epoch of Keras."""

    def __init__(self, trial: Trial, monitor: str, interval: int = 1) -> None:
        super().__init__()
        self._trial, self._monitor, self._interval = trial, monitor, interval

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Reports the metric."""
        if (epoch + 1) % self._interval == 0:
            _report(self._trial, (logs or {}).get(self._monitor), epoch, "epoch")


class _XGBoost:
    """Reports DATA-METRIC after each iteration of XGBoost."""

    def __init__(self, trial: Trial, observation_key: str) -> None:
        super().__init__()
        self._trial, self._key = trial, observation_key

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Reports the metric."""
        data, _, metric = self._key.partition("-")
        _report(self._trial, evals_log[data][metric][-1], epoch, "iteration")
        return False


class _LightGBM:
    """Reports a metric after each iteration of LightGBM."""

    def __init__(self, trial: Trial, metric: str, valid_name: str = "valid_0", report_interval: int = 1) -> None:
        super().__init__()
        self._trial, self._metric, self._data, self._interval = trial, metric, valid_name, report_interval

    def __call__(self, environment: Any) -> None:
        if (environment.iteration + 1) % self._interval == 0:
            for found in environment.evaluation_result_list or []:
                if found[0] == self._data and found[1] == self._metric:
                    _report(self._trial, found[2], environment.iteration, "iteration")


# name: what it does, and MODULE:CLASS of the packages from whose class it derives, made when it is asked for
_CALLBACKS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "PyTorchLightningPruningCallback": (_Lightning, ("lightning.pytorch:Callback", "pytorch_lightning:Callback")),
    "KerasPruningCallback": (_Keras, ("keras.callbacks:Callback", "tensorflow.keras.callbacks:Callback")),
    "TFKerasPruningCallback": (_Keras, ("tensorflow.keras.callbacks:Callback", "keras.callbacks:Callback")),
    "XGBoostPruningCallback": (_XGBoost, ("xgboost.callback:TrainingCallback",)),
    "LightGBMPruningCallback": (_LightGBM, ()),
}


def _bases(places: tuple[str, ...]) -> tuple[Any, ...]:
    """The class of the first package that is loaded, else of one that can be imported; none without any."""
    loaded = [place for place in places if place.partition(":")[0] in sys.modules]
    for place in [*loaded, *places]:
        module, _, name = place.partition(":")
        try:
            return (getattr(importlib.import_module(module), name),)
        except (ImportError, AttributeError):
            continue
    return ()


def __getattr__(name: str) -> Any:
    if name not in _CALLBACKS:
        return ignored_class(__name__, name)
    behaviour, places = _CALLBACKS[name]
    made = type(name, (behaviour, *_bases(places)), {"__module__": __name__, "__doc__": behaviour.__doc__})
    globals()[name] = made
    return made
