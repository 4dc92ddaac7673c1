"""The run that calls of other loggers are carried to: the trial of this process, or by hand a run folder. foretime.wandb, foretime.mlflow,
foretime.optuna and foretime.lightning share it.

In a trial the numbers become evaluations, curves and the result of the trial. A row with the sweep's metric is an evaluation, which early
stopping judges. Everything is also written to `metrics.jsonl` of the run's directory; files go below `files` there.
"""
from __future__ import annotations

import atexit
import datetime
import fcntl
import json
import math
import os
import pathlib
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

from .trial import STOPPED, Trial

Number = Union[int, float]
MOST_NUMBERS = 400  # in a message; the agent takes 500
MOST_BYTES = 48000  # of a message; the agent takes 65,536
VALUE_INTERVAL = 0.25  # seconds between messages with the same name
EVALUATION_INTERVAL = 0.1  # seconds between evaluations
FREE_MESSAGES = 500  # before the intervals count
FAULT = 70  # exit code of a trial that must not be tried again
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def in_trial() -> bool:
    """Returns whether an agent started this program as a trial."""
    return bool(os.environ.get("FORETIME_TRIAL"))


def number_of(value: Any) -> Optional[Number]:
    """Returns a number, or an array or tensor of one element, as Python's number; None for anything else."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return float(value) if isinstance(value, float) else int(value)  # also those of NumPy that derive from them
    if isinstance(value, (str, bytes, Mapping, list, tuple, set)) or value is None:
        return None
    for method in ("item", "numpy", "__float__"):
        convert = getattr(value, method, None)
        if convert is None:
            continue
        try:
            found = convert()
        except (TypeError, ValueError, RuntimeError):
            continue
        if isinstance(found, (bool, int, float)):
            return number_of(found)
        if method == "numpy" and hasattr(found, "dtype") and type(found) is not type(value):
            return number_of(found)
    return None


def flat_items(values: Mapping[Any, Any], separator: str = ".", prefix: str = "") -> dict[str, Any]:
    """Returns {"a.b": 1} of {"a": {"b": 1}}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat.update(flat_items(value, separator, name + separator))
        else:
            flat[name] = value
    return flat


def plain_json(value: Any) -> Any:
    """Returns a value as JSON has it, and the text of what JSON lacks."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_json(item) for item in value]
    number = number_of(value)
    if number is not None:
        return number if math.isfinite(number) else str(number)
    if hasattr(value, "tolist"):
        return plain_json(value.tolist())
    return str(value)


def write_json(path: pathlib.Path, content: Any) -> None:
    """Replaces a file at once."""
    beside = path.with_name(path.name + ".writing")
    beside.write_text(json.dumps(plain_json(content), indent=2) + "\n", encoding="utf-8")
    os.replace(beside, path)


def safe_name(name: str) -> str:
    """Returns a name that is one path component."""
    return re.sub(r"[^\w.+=-]", "_", name).lstrip(".")[:120] or "_"


def _rank() -> int:
    for name in _RANKS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


def _program() -> str:
    return pathlib.Path(sys.argv[0] if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python").stem


class LoggedRun:
    """A run that numbers and files are logged to.

    `directory`: where it writes; `parameters`: the sweep's choice, nested as its file has them; `metric`: the sweep's metric, "" if unknown;
    `in_trial`: an agent started this program; `reports`: this process reports to that agent. A trial has one reporting process: rank 0,
    and of several processes the first one. Other processes write to folders below the trial's.
    """

    def __init__(self, title: str = "", parameters: Optional[Mapping[str, Any]] = None, keeps: bool = True) -> None:
        self.in_trial = in_trial()
        self.parameters: dict[str, Any] = dict(parameters or {})
        self.metric, self.goal, self.job, self.sweep, self.number = "", "", "", "", 0
        self.last_step = -1
        self._lock, self._said = threading.RLock(), set[str]()
        self._process = os.getpid()
        self._trial: Optional[Trial] = None
        self._owner: Any = None
        self._result: dict[str, Number] = {}
        self._sent_result: Optional[dict[str, Number]] = None
        self._sent_at: dict[str, float] = {}
        self._held: dict[str, Number] = {}  # values since the last message of that name
        self._held_evaluation: Optional[dict[str, Any]] = None
        self._evaluations, self._evaluated_at, self._reports = 0, 0.0, 0
        self.failed = self._closed = False
        self.before_end: list[Callable[[], None]] = []  # report what is left: at a stop, and at the end of the process
        self._rows: Any = None
        self._keeps = keeps
        if self.in_trial:
            self._open_trial()
        else:
            stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
            runs = pathlib.Path(os.environ.get("FORETIME_RUNS") or "runs")
            self.directory = (runs / f"{safe_name(title or _program())}-{stamp}-{secrets.token_hex(2)}").absolute()
            if keeps:
                self.directory.mkdir(parents=True)
        self.reports = self._trial is not None
        atexit.register(self._at_exit)

    def _open_trial(self) -> None:
        told = json.loads(pathlib.Path(os.environ["FORETIME_TRIAL"]).read_text(encoding="utf-8"))
        self.parameters = dict(told["parameters"])
        self.directory = pathlib.Path(told["directory"])
        self.job, self.number = str(told.get("job", "")), int(told.get("trial") or 0)
        self.metric, self.goal, self.sweep = (str(told.get(key) or "") for key in ("metric", "goal", "sweep"))
        rank = _rank()
        if rank == 0 and self._take():
            self._trial = Trial()
        else:
            self.directory = self.directory / "processes" / (f"rank-{rank}" if rank else str(os.getpid()))
            self.directory.mkdir(parents=True, exist_ok=True)

    def _take(self) -> bool:
        """Locks the trial for this process; False if another one reports already."""
        self._owner = open(self.directory / "reports.lock", "a", encoding="utf-8")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._owner.close()
            self._owner = None
        except OSError:  # a file system without locks: one process is the rule
            pass
        return self._owner is not None

    # Files.

    @property
    def files(self) -> pathlib.Path:
        """The folder of the run's files, made on demand."""
        folder = self.directory / "files"
        if self._keeps:
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def earlier_files(self) -> list[pathlib.Path]:
        """Returns the `files` folders of this trial's earlier attempts, newest first."""
        name = self.directory.name
        if not self.in_trial or not name.startswith("attempt-"):
            return []
        found = [folder for folder in self.directory.parent.glob("attempt-*/files") if folder.parent.name != name]
        return sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)

    def earlier_step(self) -> int:
        """Returns the last step that an earlier attempt logged; -1 if none did."""
        last = -1
        for folder in self.earlier_files():
            try:
                for line in (folder.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
                    last = max(last, int(json.loads(line).get("step", -1)))
            except (OSError, ValueError):
                continue
        return last

    def write_description(self, **content: Any) -> None:
        """By hand: the trial.json by which foretime.Run opens the folder."""
        if self._keeps and not self.in_trial:
            write_json(self.directory / "trial.json", content)

    def say(self, text: str, once: str = "") -> None:
        """Prints a line on standard error; with `once`, one line of that key."""
        if once:
            if once in self._said:
                return
            self._said.add(once)
        print(f"foretime: {text}", file=sys.stderr, flush=True)

    # Numbers.

    def log(self, step: int, values: Mapping[str, Number], stops: bool = True) -> None:
        """Writes and reports a row of numbers. Steps never fall, because a history takes a smaller step for a training that continues from
        there: a row of an earlier step goes behind the last one. Where the agent has asked the trial to end, ends the process (exit code
        75), unless `stops` is False."""
        if os.getpid() != self._process or not values:
            return
        with self._lock:
            step = max(0, int(step)) if step >= self.last_step else self.last_step + 1
            self.last_step = step
            judged = self.metric in values if self.metric else self.in_trial
            self._write("eval" if judged else "train", step, values)
            if self._trial is not None:
                if judged:
                    self._evaluate(step, values)
                else:
                    self._report(step, values)
        if stops:
            self.stop_if_asked()

    def _write(self, kind: str, step: int, values: Mapping[str, Number]) -> None:
        if not self._keeps:
            return
        if self._rows is None:
            self._rows = open(self.directory / "metrics.jsonl", "a", encoding="utf-8", buffering=1)
        row = {
            name: value if math.isfinite(value) else None
            for name, value in values.items()
            if name not in ("kind", "step")
        }
        self._rows.write(json.dumps({"kind": kind, "step": step, **row}, allow_nan=False) + "\n")

    def _send(self, message: dict[str, Any]) -> None:
        if self._trial is not None and self._trial.in_sweep:
            self._trial._send(message)

    def _fitting(self, values: Mapping[str, Number]) -> dict[str, Optional[Number]]:
        """Those that one message takes, the sweep's metric first."""
        names = sorted(values, key=lambda name: name != self.metric)
        fitting: dict[str, Optional[Number]] = {}
        size = 0
        for name in names:
            size += len(json.dumps(name)) + 30
            if len(fitting) == MOST_NUMBERS or size > MOST_BYTES:
                self.say(
                    f"{len(values)} numbers in one row: the agent gets {len(fitting)} of them, metrics.jsonl has all",
                    once="many",
                )
                break
            fitting[name] = values[name] if math.isfinite(values[name]) else None
        return fitting

    def _evaluate(self, step: int, values: Mapping[str, Number]) -> None:
        self._evaluations += 1
        message = {"type": "evaluation", "step": step, "iteration": self._evaluations, "metrics": self._fitting(values)}
        now = time.monotonic()
        if self._evaluations > FREE_MESSAGES and now - self._evaluated_at < EVALUATION_INTERVAL:
            self._held_evaluation = message
            return
        self._held_evaluation, self._evaluated_at = None, now
        self._send(message)

    def _report(self, step: int, values: Mapping[str, Number]) -> None:
        now = time.monotonic()
        self._reports += 1
        free = self._reports <= FREE_MESSAGES
        due = {
            name: value
            for name, value in values.items()
            if free or now - self._sent_at.get(name, -1e9) >= VALUE_INTERVAL
        }
        for name, value in values.items():
            if name in due:
                self._held.pop(name, None)
                self._sent_at[name] = now
            else:
                self._held[name] = value
        if due:
            self._send({"type": "progress", "step": step, "values": self._fitting(due)})

    def _send_held(self) -> None:
        step = max(0, self.last_step)
        if self._held:
            self._send({"type": "progress", "step": step, "values": self._fitting(self._held)})
            self._held.clear()
        if self._held_evaluation is not None:
            self._send({**self._held_evaluation, "step": step})
            self._held_evaluation = None

    # The end.

    def result(self, metrics: Mapping[str, Number]) -> None:
        """The final metrics; those of a later call are added. In a trial they are its result."""
        with self._lock:
            self._result.update(metrics)
            self._finish()

    def fail(self) -> None:
        """The program reports that the run has failed: a trial ends as failed and is not tried again."""
        self.failed = True

    def _finish(self) -> None:
        if os.getpid() != self._process or not self._result or self._result == self._sent_result:
            return
        step = max(0, self.last_step)
        self._write("final", step, self._result)
        self._send_held()
        self._send({"type": "result", "step": step, "metrics": self._fitting(self._result)})
        self._sent_result = dict(self._result)

    def end(self) -> None:
        """Reports what is left."""
        for report in self.before_end:
            report()
        self.before_end.clear()

    def close(self) -> None:
        """Closes the channel and the files."""
        if os.getpid() != self._process or self._closed:
            return
        self._closed = True
        atexit.unregister(self._at_exit)
        with self._lock:
            self._send_held()
            if self._trial is not None and self._trial._channel is not None:
                self._trial._channel.close()
                self._trial._channel = None
            for file in (self._rows, self._owner):
                if file is not None:
                    file.close()
            self._rows = self._owner = None

    def _at_exit(self) -> None:
        """An exception that nobody caught leaves no final row."""
        if os.getpid() != self._process or self._closed:
            return
        caught_all = getattr(sys, "last_type", None) is None
        if caught_all:
            self.end()
        self.close()
        if self.failed and self.reports and caught_all:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(FAULT)

    @property
    def asked_to_stop(self) -> bool:
        """Whether the agent asked the trial to end: early stopping, cancelled, or the agent drains."""
        with self._lock:
            return self._trial is not None and self._trial.should_stop

    def stop_if_asked(self) -> None:
        """Ends the process with exit code 75 if the agent asked for it; in the main thread alone."""
        if self._trial is None or threading.current_thread() is not threading.main_thread() or not self.asked_to_stop:
            return
        self.stop()

    def stop(self) -> None:
        """Reports what is left, and ends the process with exit code 75."""
        self.end()
        self.failed = False
        print(f"stops: {self._trial.stop_reason if self._trial is not None else ''}", flush=True)
        raise SystemExit(STOPPED)


_current: Optional[LoggedRun] = None


def current(title: str = "", keeps: bool = True) -> LoggedRun:
    """Returns the run of this process: in a trial always the same one, by hand a new one with each call."""
    global _current
    if _current is None or not _current.in_trial or _current._closed or _current._process != os.getpid():
        _current = LoggedRun(title, keeps=keeps or in_trial())
    return _current


def forget() -> None:
    """The next call of `current` makes another run: a process that runs several trials, one after the other."""
    global _current
    if _current is not None:
        _current.close()
    _current = None
