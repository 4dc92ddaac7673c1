"""A model that goes on learning from what a tuner measures: by the command that fine-tunes bundles."""
from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import Optional

from .library import ForetimeError, Library, StrPath
from .model import Model
from .outputs import expect_replaceable
from .scores import Speeds

logger = logging.getLogger("foretime")

KEPT = 6  # exit code: the weights were not better, and the new bundle has the old ones
COMMAND = ("foretime", "finetune", "{model}", "{records}", "--dags", "{dags}", "-o", "{output}")


class FineTuning:
    """Collects record lines; after every `every` new ones, makes a bundle of the first one and all lines so far.

    `command`: words in which {model}, {records}, {dags} and {output} are replaced by paths; `folder`: where records, compute
    DAGs and bundles are kept (a temporary folder that goes with this object, where None). `every` 0: only collects; else FileNotFoundError
    where there is no such command, and the model would stay as it is.
    """

    def __init__(
        self, bundle: StrPath, every: int = 0, command: Sequence[str] = COMMAND, folder: Optional[StrPath] = None
    ) -> None:
        if every > 0 and shutil.which(command[0]) is None:
            raise FileNotFoundError(
                f"fine-tuning after every {every} records: no program {command[0]}; put foretime on PATH, or give "
                "finetune_command"
            )
        self.bundle = os.fspath(bundle)
        self.records: list[str] = []
        self._every = every
        self._command = command
        self._folder = os.fspath(folder) if folder else None
        self._tables: dict[str, str] = {}
        self._learned = 0
        self._rounds = 0

    def add(self, workload_key: str, table: Optional[str], lines: Iterable[str]) -> Optional[str]:
        """Takes records of one workload with its compute DAG (JSON text; None where they need none). Returns the path of a new
        bundle, or None."""
        if table is not None:
            self._tables[workload_key] = table
        self.records.extend(line.rstrip("\n") for line in lines)
        if self._every <= 0 or len(self.records) - self._learned < self._every:
            return None
        self._learned = len(self.records)
        return self._run()

    def _write(self, folder: str, name: str, lines: Iterable[str]) -> str:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        return path

    def _make_folder(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="foretime-")
            weakref.finalize(self, shutil.rmtree, self._folder, True)
        os.makedirs(self._folder, exist_ok=True)
        return self._folder

    def _run(self) -> Optional[str]:
        self._rounds += 1
        try:
            folder = self._make_folder()
            output = os.path.join(folder, f"finetuned-{self._rounds}.foretime")
            words = {
                "model": self.bundle,
                "records": self._write(folder, "records.json", self.records),
                "dags": self._write(folder, "dags.jsonl", self._tables.values()),
                "output": output,
            }
            command = [word.format(**words) for word in self._command]
            finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except OSError as error:
            logger.warning("fine-tuning: %s: %s; the model stays as it is", self._command[0], error)
            return None
        if finished.returncode == KEPT:
            logger.info("fine-tuning: no better on what was held out; the model stays as it is")
            return None
        if finished.returncode != 0 or not os.path.exists(output):
            tail = finished.stdout.decode(errors="replace").strip().splitlines()[-1:]
            logger.warning(
                "fine-tuning: %s ended with %d: %s; the model stays as it is",
                command[0],
                finished.returncode,
                tail[0] if tail else "no output",
            )
            return None
        return output


class BundleInUse:
    """The bundle that a cost model scores by, and how it goes on learning: what the cost models of all tuners are made of.

    `model`: foretime.Model, `speeds`: foretime.scores.Speeds of it, `path`: its file.
    """

    def __init__(
        self,
        path: StrPath,
        threads: int,
        library: Optional[Library],
        every: int,
        command: Sequence[str],
        folder: Optional[StrPath],
    ) -> None:
        self._threads = threads
        self._library = library
        self._options = (every, command, folder)
        self.load(path)

    @property
    def records(self) -> list[str]:
        """The lines collected so far."""
        return self._finetuning.records

    def load(self, path: StrPath) -> None:
        """Goes on with another bundle; forgets what was collected. Where it cannot be opened nothing changes."""
        self._open(path)
        self._finetuning = FineTuning(path, *self._options)

    def save(self, path: StrPath) -> None:
        """Copies the bundle, also over an earlier one. Raises FileExistsError where another file is there."""
        expect_replaceable(path, bundle=True)
        shutil.copyfile(self.path, path)

    def learn(self, workload_key: str, table: Optional[str], lines: Iterable[str]) -> bool:
        """Takes measured records as FineTuning.add does; True where a new bundle is in use."""
        path = self._finetuning.add(workload_key, table, lines)
        if path is None:
            return False
        try:
            self._open(path)
        except ForetimeError as error:
            logger.warning("fine-tuning: %s; the model stays as it is", error)
            return False
        logger.info("goes on with %s", path)
        return True

    def _open(self, path: StrPath) -> None:
        model = Model(path, self._threads, library=self._library)
        self.model, self.speeds, self.path = model, Speeds(model), model.file
