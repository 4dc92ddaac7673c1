"""Foretime's models as cost models of TVM's MetaSchedule, in all releases from TVM 0.10 on.

    meta_schedule.tune_tir(module, target, work_dir, max_trials_global=64, cost_model=ForetimeCostModel("x86-cpu"))

foretime.tvm_names knows what is called otherwise in which release, foretime.tir_program how programs are read.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from .finetuning import BundleInUse
from .library import ForetimeError, Library, StrPath
from .meta_schedule_programs import last_line, mean_seconds, module_text, read_database, record_line, workload_key
from .model import Model
from .scores import UnknownMachines, Unscored
from .tir_program import Unreadable, target_text
from .tvm_names import find_names

COMMAND = ("foretime", "finetune", "{model}", "{records}", "-o", "{output}")
BAD_INPUT = 4  # exit code (docs/reference/exit-codes.md)
HOPELESS = 64  # candidates of a workload without a score after which none is expected
NAMES = find_names()


def expect_programs(model: Model, bundle: StrPath) -> None:
    """Raises ForetimeError where a bundle's inputs cannot be computed from a scheduled PrimFunc."""
    found = ""
    if model.kind not in ("loops", "trees"):
        found = f"candidates of XLA graphs ({model.kind})"
    elif any(name.startswith("gpu.") for name in model.describe().get("schema", {}).get("feature_names", ())):
        found = "auto_scheduler's records of GPUs, whose threads and shared memory are not read from TIR"
    if found:
        raise ForetimeError(
            BAD_INPUT,
            "bad input",
            f"{bundle}: scores {found}, expected a model of programs for CPUs to score MetaSchedule's",
        )


def result_seconds(result: Any) -> Optional[float]:
    """The mean run time of a RunnerResult, or None where it failed."""
    return None if result.error_msg is not None else mean_seconds(result.run_secs)


@NAMES.derived_object
class ForetimeCostModel(NAMES.py_cost_model):  # type: ignore[name-defined]
    """Scores candidates by their scheduled TIR. It is trained: there are no random scores until enough was measured.

    Scores are relative speeds (foretime.scores.Scale), higher is faster; where the bundle tells chances of failure, times the
    chance that a candidate builds and runs. A candidate that cannot be read is unknown: it gets the speed of an average one, and
    a warning says how many there are and why. Measured programs are collected, those that failed as well; with `finetune_every`,
    a new bundle is made of them after every so many, by `finetune_command` (foretime.finetuning), and takes the first one's place.
    """

    def __init__(
        self,
        bundle: StrPath,
        threads: int = 1,
        finetune_every: int = 0,
        finetune_command: Sequence[str] = COMMAND,
        finetune_folder: Optional[StrPath] = None,
        library: Optional[Library] = None,
    ) -> None:
        super().__init__()
        self._library = library
        self._bundle = BundleInUse(bundle, threads, library, finetune_every, finetune_command, finetune_folder)
        expect_programs(self._bundle.model, bundle)
        self._forget()

    @property
    def records(self) -> list[str]:
        """The lines collected so far: JSON with workload, id, runtime in seconds (or failed), and program (foretime.tir_program)."""
        return self._bundle.records

    def load(self, path: StrPath) -> None:
        """Goes on with another bundle; forgets what was collected. Where it cannot be opened or used nothing changes."""
        expect_programs(Model(path, library=self._library), path)
        self._bundle.load(path)
        self._forget()

    def save(self, path: StrPath) -> None:
        """Copies the bundle in use."""
        self._bundle.save(path)

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        """Collects what was measured, and fine-tunes when that is due."""
        key = workload_key(NAMES, context.mod)
        texts, _ = self._texts(candidates, context.target)
        self._learn([(key, text, result_seconds(result)) for text, result in zip(texts, results) if text is not None])

    def update_from_database(self, folder: StrPath) -> int:
        """Takes the measured programs of a database (the work_dir of an earlier search) as if they had been measured now. Returns
        how many there are. Raises FileNotFoundError and ValueError as foretime.meta_schedule_programs.read_database does.
        """
        found = [program for program in read_database(NAMES, folder) if program.text is not None]
        self._learn([(program.key, program.text, program.seconds) for program in found if program.text is not None])
        return len(found)

    def predict(self, context: Any, candidates: Any) -> npt.NDArray[np.float64]:
        """float64 [candidates]: relative speeds."""
        if len(candidates) == 0:
            return np.empty(0, np.float64)
        model, key = self._bundle.model, workload_key(NAMES, context.mod)
        if context.target is not None:
            self._machines.note(model, target_text(context.target))
        texts, reason = self._texts(candidates, context.target)
        read = np.array([text is not None for text in texts])
        scores = np.full(len(texts), np.inf, np.float32)
        failures = np.full(len(texts), np.nan, np.float32) if model.predicts_failures else None
        known = [text for text in texts if text is not None]
        if known and failures is not None:
            scores[read], failures[read] = model.score_tir_and_failures(known)
        elif known:
            scores[read] = model.score_tir(known)
        never = self._unscored.note(key, scores, lambda: reason or model.failure())
        if never >= HOPELESS:  # the search would look for one for ever
            why = reason or model.failure()
            raise ForetimeError(
                BAD_INPUT,
                "bad input",
                f"none of {never} candidates of {key} has a score; the first of the last ones: {why}",
            )
        return self._bundle.speeds(key, scores, failures).astype(np.float64)

    def _forget(self) -> None:
        """What belongs to a bundle that is not in use any more."""
        self._unscored = Unscored()
        self._machines = UnknownMachines()

    def _texts(self, candidates: Any, target: Any) -> tuple[list[Optional[str]], str]:
        """The text of each candidate, None where it cannot be read, and why the first of these cannot."""
        texts: list[Optional[str]] = []
        reason = ""
        for candidate in candidates:
            try:
                texts.append(module_text(NAMES, candidate.sch.mod, target))
            except Unreadable as error:
                texts.append(None)
                reason = reason or last_line(error)
        return texts, reason

    def _learn(self, programs: Sequence[tuple[str, str, Optional[float]]]) -> None:
        """Takes programs with their workloads and run times, those that the bundle can read."""
        readable = np.isfinite(self._bundle.model.score_tir([text for _, text, _ in programs]))
        lines: dict[str, list[str]] = {}
        count = len(self.records)
        for (key, text, seconds), known in zip(programs, readable):
            if known:
                lines.setdefault(key, []).append(record_line(key, f"{key}-{count}", seconds, text))
                count += 1
        for key, of_workload in lines.items():
            if self._bundle.learn(key, None, of_workload):
                self._forget()
