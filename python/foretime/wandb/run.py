"""`wandb.init()` returns a Run, which carries W&B's calls to a trial of Foretime or to a run folder."""
from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

from ..logged_run import LoggedRun, Number, flat_items, number_of, plain_json, safe_name, write_json
from .config import Config, items_of
from .errors import UsageError
from .media import Media, array_of, write_value
from .metrics import Metric, Metrics
from .run_files import KEPT, RunFiles
from .settings import Settings
from .summary import Summary


def _is_media(value: Any) -> bool:
    return (
        isinstance(value, Media)
        or hasattr(value, "savefig")
        or hasattr(value, "write_html")
        or (hasattr(value, "mode") and callable(getattr(value, "save", None)))
    )


class Run(RunFiles):
    """A run with W&B's attributes and methods."""

    def __init__(self, logged: LoggedRun, settings: Settings, options: dict[str, Any]) -> None:
        self._logged = logged
        self.settings = settings
        self.id: str = options.get("id") or logged.job or logged.directory.name
        self.name: Optional[str] = (
            options.get("name")
            or os.environ.get("WANDB_NAME")
            or (f"trial-{logged.number}" if logged.in_trial else logged.directory.name)
        )
        self.project: str = options.get("project") or os.environ.get("WANDB_PROJECT") or "uncategorized"
        self.entity: str = options.get("entity") or os.environ.get("WANDB_ENTITY") or ""
        self.group: str = options.get("group") or os.environ.get("WANDB_RUN_GROUP") or ""
        self.job_type: str = options.get("job_type") or ""
        self.notes: Optional[str] = options.get("notes")
        self.tags: Any = tuple(options.get("tags") or ())
        self.resumed = False
        self.disabled = not logged._keeps
        self.offline = True
        self.mode = "offline"
        self.start_time = time.time()
        self.sweep_id: Optional[str] = os.environ.get("WANDB_SWEEP_ID") if logged.in_trial else None
        self.starting_step = 0
        self.exit_code: Optional[int] = None
        self.config = Config(self._describe)
        self.summary = Summary(self._describe)
        self._attach_id = self.id
        self._metrics = Metrics(self.summary)
        self._offset = logged.last_step + 1  # a later run of one trial continues the curves
        self._step = 0
        self._row: dict[str, Any] = {}
        self._finished = False
        self._described_at = 0.0
        logged.before_end.append(self._report_summary)
        free = bool(options.get("allow_val_change"))
        self.config._lock(logged.parameters)
        kept, left_out = options.get("config_include_keys"), options.get("config_exclude_keys") or ()
        self.config.setdefaults(
            {
                name: value
                for name, value in items_of(options.get("config")).items()
                if name not in left_out and (kept is None or name in kept)
            }
        )
        self.config._bind(lambda text, once: logged.say(text, once), free)

    def __repr__(self) -> str:
        return f"<foretime.wandb run {self.name} in {self._logged.directory}>"

    # What it is.

    @property
    def dir(self) -> str:
        """The folder of the run's files."""
        return str(self._logged.files)

    @property
    def step(self) -> int:
        """The step of the next row."""
        return self._step

    @property
    def path(self) -> str:
        """entity/project/id."""
        return "/".join(filter(None, (self.entity, self.project, self.id)))

    @property
    def url(self) -> str:
        """The address of the run's folder."""
        return self._logged.directory.as_uri()

    @property
    def project_url(self) -> str:
        """The address of the folder of runs."""
        return self._logged.directory.parent.as_uri()

    @property
    def sweep_url(self) -> Optional[str]:
        """The address of the folder of runs; None outside of a sweep."""
        return self.project_url if self.sweep_id else None

    @property
    def config_static(self) -> Config:
        """The config."""
        return self.config

    def get_url(self) -> str:
        """Returns the address of the run's folder."""
        return self.url

    def get_project_url(self) -> str:
        """Returns the address of the folder of runs."""
        return self.project_url

    def get_sweep_url(self) -> Optional[str]:
        """Returns the address of the folder of runs; None outside of a sweep."""
        return self.sweep_url

    def project_name(self) -> str:
        """Returns the project."""
        return self.project

    def _describe(self, now: bool = False) -> None:
        """Writes config and summary, at most once a second."""
        if (
            self.disabled
            or self._finished
            or not hasattr(self, "_described_at")
            or (not now and time.time() - self._described_at < 1)
        ):
            return
        self._described_at = time.time()
        content = {
            "name": self.name,
            "id": self.id,
            "project": self.project,
            "group": self.group,
            "job_type": self.job_type,
            "tags": list(self.tags or ()),
            "notes": self.notes,
            "config": self.config.as_dict(),
            "summary": self.summary.as_dict(),
        }
        write_json(self._logged.files / "run.json", content)
        self._logged.write_description(
            parameters=self.config.as_dict(), directory=str(self._logged.directory), resume=None, job=self.id, trial=0
        )

    # Numbers.

    def log(
        self,
        data: Mapping[str, Any],
        step: Optional[int] = None,
        commit: Optional[bool] = None,
        sync: Optional[bool] = None,
    ) -> None:
        """Adds to the row of this step. The row is reported when it is complete: at once without `step` and `commit`, else with
        commit=True or the first value of a later step."""
        if not isinstance(data, Mapping):
            raise ValueError("wandb.log must be passed a dictionary")
        if any(not isinstance(name, str) for name in data):
            raise ValueError("Key values passed to `wandb.log` must be strings.")
        if self._finished:
            raise UsageError(f"run {self.name}: log after finish")
        if step is not None:
            step = int(step)
            if step < self._step:
                self._logged.say(f"log: step {step} is behind step {self._step}: left out, as W&B does", once="steps")
                return
            if step > self._step:
                self._commit()
                self._step = step
            commit = bool(commit)
        self._row.update(data)
        if commit is None or commit:
            self._commit()
            self._step += 1

    def _commit(self) -> None:
        row, self._row = self._row, {}
        if not row:
            return
        numbers, others = self._note(row)
        if others:
            self._keep(others)
        self._describe()
        step = self._metrics.step_of(numbers)
        self._logged.log(self._offset + (self._step if step is None else step), numbers)

    def _note(self, row: Mapping[str, Any]) -> tuple[dict[str, Number], dict[str, Any]]:
        """Puts the numbers of a row into the summary. Returns them, and what are no numbers."""
        numbers: dict[str, Number] = {}
        others: dict[str, Any] = {}
        for name, value in flat_items(row).items():
            number = number_of(value)
            if number is None:
                others[name] = value
            else:
                numbers[name] = number
                self._metrics.note(name, number)
        return numbers, others

    def _keep(self, others: Mapping[str, Any]) -> None:
        """Writes what are no numbers to files."""
        if self.disabled:
            return
        texts = {}
        for name, value in others.items():
            values = (
                list(value) if isinstance(value, (list, tuple)) and any(_is_media(item) for item in value) else [value]
            )
            if not any(_is_media(item) or array_of(item) is not None for item in values):
                texts[name] = plain_json(value)
                self.summary._values[name] = texts[name]
                continue
            folder = self._logged.files / "media"
            folder.mkdir(exist_ok=True)
            written = []
            for number, item in enumerate(values):
                place = folder / (
                    f"{safe_name(name)}-{self._offset + self._step}" + (f"-{number}" if len(values) > 1 else "")
                )
                try:
                    written.append(write_value(item, place).name)
                except Exception:  # pylint: disable=broad-except
                    self._logged.say(f"{name}: not kept: {traceback.format_exc(limit=0).strip()}", once=f"keep {name}")
            self.summary._values[name] = {"files": written}
        if texts:
            with open(self._logged.files / "texts.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": self._offset + self._step, **texts}) + "\n")
        self._logged.say(KEPT.format(self._logged.files), once="kept")

    def define_metric(
        self,
        name: str,
        step_metric: Any = None,
        step_sync: Optional[bool] = None,
        hidden: Optional[bool] = None,
        summary: Optional[Union[str, Sequence[str]]] = None,
        goal: Optional[str] = None,
        overwrite: Optional[bool] = None,
    ) -> Metric:
        """Says what the summary has of a metric. `step_metric` counts for the name * alone."""
        return self._metrics.define(name, step_metric, summary, goal, bool(hidden))

    def _numbers_of_summary(self) -> dict[str, Number]:
        numbers: dict[str, Number] = {}
        for name, value in self.summary.items():
            if isinstance(value, Mapping):
                chosen = self._metrics.chosen(name, dict(value))
                if chosen is not None:
                    numbers[name] = chosen
                value = flat_items(value, prefix=f"{name}.")
            else:
                value = {name: value}
            for key, item in value.items():
                number = number_of(item)
                if number is not None:
                    numbers[key] = number
        return numbers

    def _report_summary(self) -> None:
        if self._row and not self._finished:
            row, self._row = self._row, {}
            self._note(row)
        self._describe(now=True)
        if not self._logged.failed:
            self._logged.result(self._numbers_of_summary())

    # The end.

    def finish(self, exit_code: Optional[int] = None, quiet: Optional[bool] = None) -> None:
        """Ends the run. In a trial the summary becomes the result; another `exit_code` than 0 makes the trial fail."""
        if self._finished:
            return
        self._commit()
        self.exit_code = exit_code or 0
        if exit_code:
            self._logged.fail()
        self._report_summary()
        self._leave()
        if not self._logged.in_trial:
            self._logged.close()

    def _leave(self) -> None:
        """Marks the run as finished: it reports no more, and is not wandb.run."""
        if self._report_summary in self._logged.before_end:
            self._logged.before_end.remove(self._report_summary)
        self._finished = True
        from .. import wandb

        if wandb.run is self:
            wandb.run = None

    def join(self, exit_code: Optional[int] = None) -> None:
        """W&B's older name of finish."""
        self.finish(exit_code)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        wanted = kind is None or (isinstance(error, SystemExit) and error.code in (None, 0, 75))
        if wanted:
            self.finish()
        else:  # the exception goes on, and decides how the process ends
            self._leave()

    # What has no effect.

    def link_artifact(self, *arguments: Any, **options: Any) -> None:
        """Has no effect: there is no registry."""

    link_model = link_artifact

    def log_code(self, *arguments: Any, **options: Any) -> None:
        """Has no effect."""

    def watch(self, *arguments: Any, **options: Any) -> None:
        """Has no effect."""

    def unwatch(self, *arguments: Any, **options: Any) -> None:
        """Has no effect."""

    def mark_preempting(self) -> None:
        """Has no effect: agents know by the exit code."""

    def alert(self, title: str, text: str = "", level: Any = None, wait_duration: Any = None) -> None:
        """Prints the alert."""
        self._logged.say(f"alert: {title}: {text}")

    def display(self, *arguments: Any, **options: Any) -> bool:
        """Shows nothing."""
        return False

    def to_html(self, *arguments: Any, **options: Any) -> str:
        """Returns a link to the run's folder."""
        return f'<a href="{self.url}">{self.name}</a>'

    def status(self) -> None:
        """Does nothing."""


def scratch_run(settings: Settings, options: dict[str, Any]) -> Run:
    """Returns a run that keeps nothing: mode="disabled" outside of a trial."""
    logged = LoggedRun(keeps=False)
    made = tempfile.TemporaryDirectory(prefix="foretime-disabled-")
    logged.directory = pathlib.Path(made.name)
    (logged.directory / "files").mkdir()
    run = Run(logged, settings, options)
    run.__dict__["_scratch"] = made
    return run


def print_where(run: Run) -> None:
    """Prints once where a run by hand is kept."""
    if not run._logged.in_trial and not run.disabled:
        print(f"foretime: wandb run {run.name}: {run._logged.directory}", file=sys.stderr, flush=True)
