"""Trials of a sweep in Python: how a training script talks to the agent that started it (docs/reference/job-protocol.md).

    trial = foretime.Trial()
    rate = trial.settings["optimizer.learning_rate"]
    for step in range(trial.first_step + 1, steps + 1):
        ...
        trial.report(step, total_steps=steps, loss=loss)
        if step % 100 == 0:
            trial.evaluation(step, {"valid/accuracy": accuracy})
            with trial.checkpoint(step) as folder:
                np.savez(folder / "weights.npz", **weights)
        trial.stop_if_asked()
    trial.finish(steps, {"valid/accuracy": accuracy})

The script is the `program` of a sweep file, run by `foretime agent --programs FOLDER`. Started by hand it works as well: settings are
its arguments (`python3 train.py --optimizer.learning_rate=0.1`), reports are printed, and nobody asks it to stop. A script that takes the settings of `foretime train` is run by `foretime agent --program SCRIPT`.
"""
from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import pathlib
import shutil
import socket
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from .settings_file import flat, read_settings

STOPPED = 75  # exit code: asked to stop; a checkpoint was written
LONGEST_LINE = 65536


def _plain(value: Any) -> Any:
    """A number as JSON has it: null where it is not finite. TypeError: it is no number."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"{value!r}: expected a number")
    return number if math.isfinite(number) else None


def _argument(text: str) -> Any:
    """A value on a command line as Python means it, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


class _Settings(dict[str, Any]):
    """Settings by dotted key, whose KeyError says how to give one."""

    def __missing__(self, key: str) -> Any:
        raise KeyError(f"{key}: not among the settings; by hand give it as --{key}=VALUE, in a sweep below parameters")


def _connected() -> socket.socket:
    """The agent's socket on this machine; where that is another one, over TCP with the token of the attempt."""
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.connect(os.environ["FORETIME_PROGRESS"])
        return channel
    except OSError:
        channel.close()
        host, colon, port = os.environ.get("FORETIME_PROGRESS_TCP", "none").rpartition(":")
        if not colon:
            raise
        channel = socket.create_connection((host.strip("[]"), int(port)), timeout=30)
        channel.settimeout(None)
        channel.sendall((json.dumps({"token": os.environ.get("FORETIME_PROGRESS_TOKEN", "")}) + "\n").encode())
        return channel


class Trial:
    """The side of a job in the job protocol. Of a job of several ranks, rank 0 alone makes one. Not for several threads at once.

    `settings`: what the sweep chose, by dotted key (of a script that takes the settings of foretime train: all of them); `directory`: its
    run directory, the place for all that it writes, where `metrics.jsonl` keeps what it reports in a sweep; `resumed`: the checkpoint
    folder that it is to continue from, None at the start; `first_step`: that checkpoint's step, 0 at the start.
    """

    def __init__(self, settings_file: Optional[str] = None) -> None:
        told = os.environ.get("FORETIME_TRIAL") if settings_file is None else None
        self._resume = "auto"
        if told:
            trial = json.loads(pathlib.Path(told).read_text(encoding="utf-8"))
            self.settings: dict[str, Any] = _Settings(flat(trial["parameters"]))
            self.directory = pathlib.Path(trial["directory"])
            self._resume = trial["resume"] or "auto"
        else:
            given = settings_file or next((word for word in reversed(sys.argv[1:]) if word.endswith(".yaml")), "")
            self.settings = _Settings(flat(read_settings(given)) if given else {})
            if settings_file is None:  # by hand: as ${args} and ${args_no_hyphens} of a sweep give them
                for word in sys.argv[1:]:
                    key, equals, value = word.removeprefix("--").partition("=")
                    if equals and key:
                        self.settings[key] = _argument(value)
            self.directory = pathlib.Path(self.settings.get("run.directory") or "runs/trial")
            self._resume = str(self.settings.get("checkpoint.resume", "auto"))
        self._left_out: set[str] = set()  # entries that were no numbers, each of which is said once
        self._evaluations = 0
        self._reason: Optional[str] = None
        self._pending = b""
        self._channel: Optional[socket.socket] = None
        self._told = bool(told)  # by an agent, which has made the directory
        self.resumed = self._resumed()
        self.first_step = 0
        if self.resumed is not None:
            state = json.loads((self.resumed / "manifest.json").read_text())
            if state["format"] != 1:
                raise ValueError(
                    f"{self.resumed}/manifest.json: format {state['format']}, expected 1: a newer version of Foretime wrote it"
                )
            self.first_step, self._evaluations = int(state["step"]), int(state.get("evaluations", 0))
        if os.environ.get("FORETIME_PROGRESS"):
            self._channel = _connected()
            self._send({"type": "hello", "pid": os.getpid()})

    @property
    def in_sweep(self) -> bool:
        """Whether an agent listens."""
        return self._channel is not None

    def _resumed(self) -> Optional[pathlib.Path]:
        if self._resume == "none":
            return None
        if self._resume not in ("auto", ""):
            return pathlib.Path(self._resume)
        # Not those that a killed attempt was writing: step-00000100.writing.
        whole = sorted(
            found.parent
            for found in self.directory.glob("checkpoints/step-*/manifest.json")
            if found.parent.name[5:].isdigit()
        )
        return whole[-1] if whole else None

    def _send(self, message: Mapping[str, Any]) -> None:
        line = (json.dumps(message, allow_nan=False) + "\n").encode()
        if len(line) > LONGEST_LINE:
            raise ValueError(f"a message of {len(line)} bytes, expected at most {LONGEST_LINE}")
        if self._channel is None:
            print(line.decode(), end="", flush=True)
            return
        try:
            self._channel.sendall(line)
        except OSError:  # the agent is gone; its supervisor ends this process, or a later agent goes on
            self._channel.close()
            self._channel = None

    def _note(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """A line of metrics.jsonl (docs/reference/file-formats.md), by which the curves outlive the agent."""
        if self._told and values:
            with open(self.directory / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({"kind": kind, "step": int(step), **values}, allow_nan=False) + "\n")

    def _numbers(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those that are numbers; the others are left out, and named once on stderr."""
        plain = {}
        for name, value in values.items():
            try:
                plain[name] = _plain(value)
            except TypeError as error:
                if name not in self._left_out:
                    print(f"foretime: {name}: left out: {error}", file=sys.stderr, flush=True)
                    self._left_out.add(name)
        return plain

    def report(
        self,
        step: int,
        total_steps: Optional[int] = None,
        loss: Optional[float] = None,
        values: Optional[Mapping[str, float]] = None,
    ) -> None:
        """How far the trial is; `values`: what was measured at this step, which becomes curves. Twice a second is enough."""
        message: dict[str, Any] = {"type": "progress", "step": int(step)}
        if total_steps is not None:
            message["total_steps"] = int(total_steps)
        if loss is not None:
            message["loss"] = _plain(loss)
        if values:
            message["values"] = self._numbers(values)
        self._send(message)
        self._note("train", step, {**({} if loss is None else {"loss": message["loss"]}), **message.get("values", {})})

    def evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of an evaluation; the sweep's metric among them decides on early stopping."""
        self._evaluations += 1
        plain = self._numbers(metrics)
        self._send({"type": "evaluation", "step": int(step), "iteration": self._evaluations, "metrics": plain})
        self._note("eval", step, plain)

    @contextlib.contextmanager
    def checkpoint(self, step: int) -> Iterator[pathlib.Path]:
        """A folder to write files to; it becomes the checkpoint of this step when the block ends without an exception, and not before:
        the next attempt continues from it."""
        folder = self.directory / "checkpoints" / f"step-{int(step):08d}"
        beside = folder.with_name(folder.name + ".writing")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        try:
            yield beside
            files = {}
            for file in sorted(beside.iterdir()):
                if not file.is_file():
                    raise ValueError(f"{file.name}: a checkpoint holds files, no folders")
                content = file.read_bytes()
                with open(file, "rb") as written:
                    os.fsync(written.fileno())
                files[file.name] = {"bytes": len(content), "crc32": zlib.crc32(content)}
            manifest = {"files": files, "format": 1, "step": int(step), "evaluations": self._evaluations}
            with open(beside / "manifest.json", "w", encoding="utf-8") as file_:
                json.dump(manifest, file_)
                file_.flush()
                os.fsync(file_.fileno())
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(beside, folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        self._send({"type": "checkpoint", "step": int(step), "path": str(folder.resolve())})

    @property
    def should_stop(self) -> bool:
        """Whether the agent asked the trial to end (early stopping, cancelled, the agent drains; `stop_reason`): write a checkpoint and
        end with exit code 75."""
        if self._channel is not None and self._reason is None:
            self._channel.setblocking(False)
            try:
                while True:
                    received = self._channel.recv(LONGEST_LINE)
                    if not received:
                        break
                    self._pending += received
            except (BlockingIOError, ConnectionError):
                pass
            finally:
                self._channel.setblocking(True)
            *lines, self._pending = self._pending.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message.get("stop"):
                    self._reason = str(message.get("reason", ""))
        return self._reason is not None

    @property
    def stop_reason(self) -> str:
        """Why the agent asked to stop; "" where it did not."""
        return self._reason or ""

    def stop_if_asked(self) -> None:
        """Ends the process with exit code 75 where the agent asked for it. Write a checkpoint before."""
        if self.should_stop:
            print(f"stops: {self.stop_reason}", flush=True)
            sys.exit(STOPPED)

    def finish(self, step: int, metrics: Mapping[str, float]) -> None:
        """The final metrics: the result of the trial."""
        plain = self._numbers(metrics)
        self._note("final", step, plain)
        self._send({"type": "result", "step": int(step), "metrics": plain})
        if self._channel is not None:
            self._channel.close()
            self._channel = None
