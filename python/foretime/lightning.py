"""Lightning's logger interface: `Trainer(logger=foretime.lightning.ForetimeLogger())` reports what `self.log` logs.

Lightning's own WandbLogger and MLFlowLogger report, too: in a trial their packages are Foretime's modules (foretime.compat).
"""
from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Optional, Union

from .logged_run import LoggedRun, Number, current, flat_items, number_of, plain_json, write_json


def _base() -> Any:
    """Logger of the Lightning that is loaded or installed; a plain class without it."""
    places = ("lightning.pytorch.loggers.logger", "pytorch_lightning.loggers.logger", "pytorch_lightning.loggers.base")
    loaded = [place for place in places if place.partition(".")[0] in sys.modules]
    for place in [*loaded, *places]:
        try:
            module = importlib.import_module(place)
            return getattr(module, "Logger", None) or module.LightningLoggerBase
        except (ImportError, AttributeError):
            continue
    return object


_Logger: Any = _base()


class ForetimeLogger(_Logger):  # type: ignore[misc]
    """A logger of Lightning that reports to the agent of a trial, or by hand writes a run folder. Rank 0 reports."""

    def __init__(self, name: str = "lightning", prefix: str = "") -> None:
        super().__init__()
        self._name, self._prefix = name, prefix
        self._run: Optional[LoggedRun] = None
        self._last: dict[str, Number] = {}

    @property
    def experiment(self) -> LoggedRun:
        """The run: `directory`, and `parameters`, the sweep's choice."""
        if self._run is None:
            self._run = current(self._name)
            self._run.before_end.append(self._report)
            if not self._run.in_trial:
                self._run.write_description(
                    parameters={}, directory=str(self._run.directory), resume=None, job=self._name, trial=0
                )
                print(f"foretime: run {self._name}: {self._run.directory}", file=sys.stderr, flush=True)
        return self._run

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def version(self) -> Union[int, str]:
        """The trial's job; by hand the run folder's name."""
        return self.experiment.job or self.experiment.directory.name

    @property
    def save_dir(self) -> str:
        """The run's directory, where Lightning puts checkpoints."""
        return str(self.experiment.directory)

    @property
    def root_dir(self) -> str:
        """The run's directory."""
        return self.save_dir

    @property
    def log_dir(self) -> str:
        """The run's directory."""
        return self.save_dir

    @property
    def group_separator(self) -> str:
        """Between a set and a metric."""
        return "/"

    def log_hyperparams(self, params: Union[Mapping[str, Any], Namespace], *arguments: Any, **options: Any) -> None:
        """Keeps hyperparameters as a file."""
        values = vars(params) if isinstance(params, Namespace) else dict(params)
        write_json(self.experiment.files / "hyperparameters.json", values)
        self.experiment.write_description(
            parameters=plain_json(values), directory=self.save_dir, resume=None, job=self._name, trial=0
        )

    def log_metrics(self, metrics: Mapping[str, Any], step: Optional[int] = None) -> None:
        """Reports numbers at a step."""
        found = {f"{self._prefix}{name}": number_of(value) for name, value in flat_items(metrics).items()}
        numbers = {name: number for name, number in found.items() if number is not None}
        self._last.update(numbers)
        self.experiment.log(step if step is not None else self.experiment.last_step + 1, numbers)

    def log_graph(self, *arguments: Any, **options: Any) -> None:
        """Has no effect."""

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Has no effect: Lightning's checkpoints stay where it writes them."""

    def save(self) -> None:
        """Does nothing: each row is written at once."""

    def _report(self) -> None:
        self.experiment.result(self._last)

    def finalize(self, status: str) -> None:
        """Reports the last values as the result."""
        if self._run is not None and status in ("success", "finished"):
            self._run.result(self._last)


__all__ = ["ForetimeLogger"]
