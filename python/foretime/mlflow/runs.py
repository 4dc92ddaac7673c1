"""Runs of MLflow's kind, and the files that they log."""
from __future__ import annotations

import json
import os
import pathlib
import pickle
import shutil
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Optional

from ..logged_run import LoggedRun, Number, current, number_of, plain_json, safe_name, write_json


class MlflowException(Exception):
    """What MLflow's calls raise."""

    def __init__(self, message: str = "", error_code: Any = None, **options: Any) -> None:
        super().__init__(message)
        self.message = message


class RunInfo:
    """The names of a run."""

    def __init__(self, run_id: str, run_name: str, artifact_uri: str, experiment_id: str) -> None:
        self.run_id = self.run_uuid = run_id
        self.run_name, self.artifact_uri, self.experiment_id = run_name, artifact_uri, experiment_id
        self.status, self.lifecycle_stage, self.user_id = "RUNNING", "active", ""
        self.start_time, self.end_time = int(1000 * time.time()), None


class RunData:
    """What a run has logged."""

    def __init__(self) -> None:
        self.metrics: dict[str, Number] = {}
        self.params: dict[str, str] = {}
        self.tags: dict[str, str] = {}


class Run:
    """A run. Runs within a run share its trial, or by hand its folder."""

    def __init__(self, logged: LoggedRun, name: str, parent: Optional[Run], experiment: str, number: int) -> None:
        self._logged, self._parent = logged, parent
        base = logged.job or logged.directory.name
        self.info = RunInfo(
            f"{base}-{number}" if number else base, name, (logged.files / "artifacts").as_uri(), experiment
        )
        self.data = RunData()
        self._steps: dict[str, int] = {}
        self._rows: dict[int, dict[str, Number]] = {}
        if parent is None:
            logged.before_end.append(self._report)

    def to_dictionary(self) -> dict[str, Any]:
        """Returns what is known as maps."""
        return {"info": vars(self.info), "data": vars(self.data)}

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        from .. import mlflow

        mlflow.end_run("FINISHED" if kind is None else "FAILED")

    def log(self, metrics: Mapping[str, Any], step: Optional[int]) -> None:
        """Logs numbers at a step; without one, the next one of each name."""
        by_step: dict[int, dict[str, Number]] = {}
        for name, value in metrics.items():
            number = number_of(value)
            if number is None:
                raise MlflowException(f"Got invalid value {value!r} for metric {name!r}: expected a number")
            at = int(step) if step is not None else self._steps.get(name, -1) + 1
            self._steps[name] = at
            self.data.metrics[name] = number
            by_step.setdefault(at, {})[name] = number
        for at in sorted(by_step):
            self._logged.log(max(0, at), by_step[at])

    def describe(self) -> None:
        """Writes params and tags."""
        content = {
            "run_id": self.info.run_id,
            "run_name": self.info.run_name,
            "params": self.data.params,
            "tags": self.data.tags,
            "metrics": self.data.metrics,
            "status": self.info.status,
        }
        write_json(
            self._logged.files / f"{safe_name('run' if self._parent is None else self.info.run_id)}.json", content
        )
        if self._parent is None:
            self._logged.write_description(
                parameters=self.data.params,
                directory=str(self._logged.directory),
                resume=None,
                job=self.info.run_id,
                trial=0,
            )

    def _report(self) -> None:
        self.describe()
        self._logged.result(self.data.metrics)

    def end(self, status: str) -> None:
        """Ends the run: its metrics are the trial's result, unless it has failed."""
        self.info.status = status
        root = self if self._parent is None else self._parent
        if self._parent is not None and status == "FINISHED":
            root.data.metrics.update(
                {name: value for name, value in self.data.metrics.items() if name not in root._steps}
            )
        self.describe()
        if self._parent is not None:
            return
        if self._report in self._logged.before_end:
            self._logged.before_end.remove(self._report)
        if status == "FINISHED":
            self._logged.result(self.data.metrics)
        if not self._logged.in_trial:
            self._logged.close()

    # Files.

    def place(self, path: Optional[str] = None) -> pathlib.Path:
        """Returns a folder of the artifacts, and makes it."""
        folder = self._logged.files / "artifacts" / (path or "")
        folder.mkdir(parents=True, exist_ok=True)
        self._logged.say(
            f"artifacts and models are kept as files in {self._logged.files / 'artifacts'}", once="artifacts"
        )
        return folder

    def keep_file(self, local: Any, path: Optional[str]) -> None:
        """Copies a file, or the files of a folder."""
        source = pathlib.Path(local)
        if source.is_dir():
            shutil.copytree(source, self.place(path) / source.name, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, self.place(path) / source.name)

    def keep_text(self, text: str, file: str) -> None:
        """Writes a text to a file of the artifacts."""
        (self.place(os.path.dirname(file)) / os.path.basename(file)).write_text(text, encoding="utf-8")

    def keep_model(self, flavour: str, model: Any, name: str) -> None:
        """Keeps a model: by its own `save`, as PyTorch's state, or pickled."""
        folder = self.place(name)
        try:
            if flavour in ("keras", "tensorflow") and callable(getattr(model, "save", None)):
                model.save(str(folder / "model.keras"))
            elif flavour in ("pytorch", "lightning") and "torch" in sys.modules:
                sys.modules["torch"].save(model, folder / "model.pth")
            else:
                with open(folder / "model.pkl", "wb") as file:
                    pickle.dump(model, file)
        except Exception as error:  # pylint: disable=broad-except
            self._logged.say(f"mlflow.{flavour}.log_model: not kept: {error}", once=f"model {flavour}")

    def keep_json(self, value: Any, file: str) -> None:
        """Writes a value as JSON."""
        self.keep_text(json.dumps(plain_json(value), indent=2) + "\n", file)


def new_run(name: Optional[str], parent: Optional[Run], experiment: str, number: int) -> Run:
    """Starts a run, and prints by hand where it is kept."""
    logged = (
        current(name or experiment if experiment != "Default" else name or "") if parent is None else parent._logged
    )
    run = Run(logged, name or logged.directory.name, parent, experiment, number)
    if parent is None and not logged.in_trial:
        print(f"foretime: mlflow run {run.info.run_name}: {logged.directory}", file=sys.stderr, flush=True)
    return run
