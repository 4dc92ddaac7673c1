"""Runs: what `foretime train` leaves in a run directory, and training from Python."""
from __future__ import annotations

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import programs
from .library import StrPath
from .programs import CommandError, Settings
from .settings_file import parse_settings, read_settings
from .table import Table

_KINDS = ("train", "eval", "final")  # of the rows of metrics.jsonl
_PROGRESS = re.compile(r": +step \d+/\d+ +loss |^already at step ")  # a line of progress of foretime train
# Of safetensors' types; bfloat16, which NumPy has not, is widened.
_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


def read_safetensors(path: StrPath) -> dict[str, npt.NDArray[Any]]:
    """The tensors of a .safetensors file, read-only views of the mapped file; bfloat16 as float32 copies. ValueError: damaged."""
    content = np.memmap(path, np.uint8, "r")
    if len(content) < 8 or int(content[:8].view("<u8")[0]) > len(content) - 8:
        raise ValueError(f"{os.fspath(path)}: no safetensors file, or cut off")
    length = int(content[:8].view("<u8")[0])
    header, data = json.loads(content[8 : 8 + length].tobytes()), content[8 + length :]
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(data):
            raise ValueError(f"{os.fspath(path)}: {name}: bytes {begin} to {end} of {len(data)}")
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(data[begin:end].tobytes(), "<u2").astype(np.uint32) << 16
            tensors[name] = wide.view(np.float32).reshape(entry["shape"])
        elif entry["dtype"] in _TYPES:
            dtype = np.dtype(_TYPES[entry["dtype"]])
            # Tensors need not be aligned in the file.
            tensors[name] = np.ndarray(entry["shape"], dtype, np.asarray(data[begin:end]).data if end > begin else b"")
        else:
            raise ValueError(f"{os.fspath(path)}: {name}: type {entry['dtype']}")
    return tensors


def _is_run(folder: pathlib.Path) -> bool:
    """Of a training, or of a program of the user's own (Trial)."""
    return any((folder / name).exists() for name in ("config.yaml", "trial.json"))


class Run:
    """A run directory. Nothing is kept: every property reads what is there now, also of a training that goes on.

    `path` is the directory of a run, or of a job of the queue (RUNS/ID): then its last attempt. FileNotFoundError where it is no run.
    """

    def __init__(self, path: StrPath) -> None:
        folder = pathlib.Path(path)
        if not _is_run(folder):
            attempts = sorted(folder.glob("attempt-*"), key=lambda attempt: int(attempt.name.rpartition("-")[2]))
            if not attempts or not _is_run(attempts[-1]):
                raise FileNotFoundError(
                    f"{folder}: no run directory: neither config.yaml nor attempt-N/config.yaml, and no trial.json of a program"
                )
            folder = attempts[-1]
        self.path = folder

    def __repr__(self) -> str:
        return f"<foretime.Run {self.path}>"

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by section: settings["optimizer"]["learning_rate"]; of a program of your own what the sweep chose."""
        if not (self.path / "config.yaml").exists():
            chosen: dict[str, Any] = json.loads((self.path / "trial.json").read_text(encoding="utf-8"))["parameters"]
            return chosen
        return read_settings(self.path / "config.yaml")

    def metrics(self, kind: Optional[str] = None) -> Table:
        """What metrics.jsonl has (docs/reference/file-formats.md): a row a report, NaN or "" where a report lacks a column. `kind`: rows
        of "train", "eval" or "final" alone; ValueError for any other."""
        if kind is not None and kind not in _KINDS:
            raise ValueError(f"kind: {kind!r}, expected one of {', '.join(_KINDS)}, or None for all rows")
        rows = []
        with open(self.path / "metrics.jsonl", encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # being written
                row = json.loads(line)
                if kind is None or row.get("kind") == kind:
                    rows.append(row)
        return Table.of_rows(rows)

    def rankings(self) -> Table:
        """rankings.csv: each evaluated candidate with set, group, rank, score, predicted and measured run time."""
        with open(self.path / "rankings.csv", newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            return Table.of_texts(list(reader), list(reader.fieldnames or []), texts=("set", "group", "id"))

    @property
    def checkpoints(self) -> list[int]:
        """Steps of the whole checkpoints, ascending."""
        names = (
            manifest.parent.name[len("step-") :] for manifest in self.path.glob("checkpoints/step-*/manifest.json")
        )
        return sorted(int(name) for name in names if name.isdigit())  # not step-00000100.writing

    def checkpoint(self, which: Union[int, str] = "best") -> pathlib.Path:
        """The folder of a checkpoint: a step, "last", or "best" (by the run's metric; where it keeps none, the last)."""
        steps = self.checkpoints
        if not steps:
            raise FileNotFoundError(f"{self.path}: no checkpoint")
        best = self.path / "checkpoints" / "best.json"
        step = which
        if which == "best":
            step = json.loads(best.read_text())["step"] if best.exists() else steps[-1]
        elif which == "last":
            step = steps[-1]
        if step not in steps:
            raise ValueError(f'{self.path}: checkpoint {which!r}, expected "best", "last" or one of {steps}')
        return self.path / "checkpoints" / f"step-{int(step):08d}"

    def weights(self, which: Union[int, str] = "best") -> dict[str, npt.NDArray[Any]]:
        """The model's tensors of a checkpoint by name: read-only views of the mapped file."""
        return read_safetensors(self.checkpoint(which) / "model.safetensors")

    def export(self, path: StrPath, licence: Optional[str] = None, force: bool = False) -> str:
        """Writes the best checkpoint as a bundle (model.foretime) or TorchScript (model.pt), by `foretime export`. Returns the path. An
        earlier export is replaced; any other file only by `force`."""
        words = ["export", str(self.path), os.fspath(path)]
        programs.run(*words, *(["--licence", licence] if licence else []), *(["--force"] if force else []))
        return os.fspath(path)


def _is_watched() -> bool:
    """Whether somebody sees standard error now: a terminal or a notebook."""
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell is not None else None
    return sys.stderr.isatty() or type(kernel).__name__ == "ZMQInteractiveShell"


class _Output(threading.Thread):
    """Reads a stream of a training to its end. `whole`: passes everything on; `progress`: shows the last line of progress in one line
    that is written over. `content` is all that came."""

    def __init__(self, stream: Iterable[bytes], to: Any, whole: bool, progress: bool) -> None:
        super().__init__(daemon=True)
        self._stream, self._to, self._whole, self._progress = stream, to, whole, progress
        self.content = b""
        self._drawn = 0

    def run(self) -> None:
        for line in self._stream:
            text = line.decode(errors="replace")
            is_progress = _PROGRESS.search(text) is not None
            if not is_progress:
                self.content += line
            if self._whole:
                self._to.write(text)
            elif self._progress and is_progress:
                shown = text.rstrip()
                self._to.write("\r" + shown.ljust(self._drawn))
                self._drawn = len(shown)
            self._to.flush()
        if self._drawn:
            self._to.write("\n")
            self._to.flush()


def train(
    settings: Settings,
    overrides: Optional[Mapping[str, Any]] = None,
    *,
    ranks: int = 1,
    echo: bool = False,
    progress: Optional[bool] = None,
    **more: Any,
) -> Run:
    """Trains by `foretime train`; the same call continues a run that was stopped. Returns the Run.

    `settings`: a settings file, or the settings as a map; `overrides` and keywords replace them: {"trainer.steps": 100}, or sections,
    trainer={"steps": 100}. `ranks` above 1: under mpirun. `progress`: shows the step, the loss and the remaining time in one line on
    standard error; None: in a terminal or a notebook. `echo`: all that it prints goes to standard output and error as it comes.
    CommandError where the settings, the data or the training fail; exit code 75 where it was asked to stop and can be continued.
    """
    if ranks < 1:
        raise ValueError(f"ranks: {ranks}, expected at least 1")
    program, words = programs.find_program(), programs.words_of(overrides, more)
    launcher = [] if ranks == 1 else ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    with programs.as_file(settings, "settings") as path:
        resolved = parse_settings(programs.run("config", path, *words, program=program))
        command = [*launcher, program, "train", path, *words, "--quiet"]
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=programs.mpi_environment(),
        )
        assert child.stdout is not None and child.stderr is not None
        watched = _is_watched() if progress is None else progress
        outputs = [_Output(child.stdout, sys.stdout, echo, False), _Output(child.stderr, sys.stderr, echo, watched)]
        for output in outputs:
            output.start()
        try:
            child.wait()
        except BaseException:  # Ctrl-C: the training writes a checkpoint and ends
            child.terminate()
            child.wait()
            raise
        finally:
            for output in outputs:
                output.join()
        if child.returncode != 0:
            raise programs.error_of(command, child.returncode, outputs[1].content)
    return Run(resolved["run"]["directory"])


__all__ = ["CommandError", "Run", "read_safetensors", "train"]
