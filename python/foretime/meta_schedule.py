"""Foretime's models as cost models of TVM's meta_schedule (TVM 0.10 to 0.20; later ones write programs in another form).

    meta_schedule.tune_tir(module, target, work_dir, max_trials_global=64, cost_model=ForetimeCostModel("cpu.foretime"))
"""
from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
import tvm

NEWEST = (0, 20)  # what save_json of these versions writes is alike: nodes by type and field, src/node/serialization.cc
if tuple(int(part) for part in tvm.__version__.split(".")[:2]) > NEWEST:
    raise ImportError(
        f"TVM {tvm.__version__}: its tvm.ir.save_json writes programs in another form, expected TVM 0.10 to 0.20. Programs of "
        "tuning records, and tables of your own (foretime data pack-table), need no TVM",
        name="tvm",
    )

from tvm import tir
from tvm.ir import structural_hash
from tvm.ir.base import save_json
from tvm.meta_schedule.cost_model import PyCostModel
from tvm.meta_schedule.utils import derived_object

from .finetuning import BundleInUse
from .library import Library, StrPath
from .scores import Unscored

COMMAND = ("foretime", "finetune", "{model}", "{records}", "-o", "{output}")


def program_text(module: Any) -> str:
    """save_json text of a module's PrimFunc; of the module where it has several functions."""
    functions = [function for _, function in module.functions.items() if isinstance(function, tir.PrimFunc)]
    text: str = save_json(functions[0] if len(functions) == 1 else module)
    return text


def workload_key(context: Any) -> str:
    """Names the module that a search tunes."""
    return str(structural_hash(context.mod)) if context.mod is not None else "module"


def mean_seconds(result: Any) -> Optional[float]:
    """The mean run time of a RunnerResult, or None where it failed."""
    if result.error_msg is not None or not result.run_secs:
        return None
    seconds = sum(float(value) for value in result.run_secs) / len(result.run_secs)
    return seconds if 0.0 < seconds < math.inf else None


@derived_object
class ForetimeCostModel(PyCostModel):
    """Scores candidates by their scheduled TIR. It is trained: there are no random scores until enough was measured.

    Scores are relative speeds (foretime.scores.Scale), higher is faster. A module that Foretime cannot read is unknown: it gets the
    speed of an average one, and a warning says how many there are and why. Measured programs are collected, those that failed as well;
    with `finetune_every`, a new bundle is made of them after every so many, by `finetune_command` (foretime.finetuning), and takes
    the first one's place.
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
        self._bundle = BundleInUse(bundle, threads, library, finetune_every, finetune_command, finetune_folder)
        self._unscored = Unscored()

    @property
    def records(self) -> list[str]:
        """The lines collected so far: JSON with workload, id, runtime in seconds (or failed), and program, its save_json text."""
        return self._bundle.records

    def load(self, path: StrPath) -> None:
        """Goes on with another bundle; forgets what was collected. Where it cannot be opened nothing changes."""
        self._bundle.load(path)

    def save(self, path: StrPath) -> None:
        """Copies the bundle in use."""
        self._bundle.save(path)

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        """Collects what was measured, and fine-tunes when that is due."""
        key = workload_key(context)
        measured = [
            (program_text(candidate.sch.mod), mean_seconds(result)) for candidate, result in zip(candidates, results)
        ]
        readable = np.isfinite(self._bundle.model.score_tir([text for text, _ in measured]))
        lines: list[str] = []
        for (text, seconds), known in zip(measured, readable):
            if known:
                name = f"{key}-{len(self.records) + len(lines)}"
                outcome: dict[str, Any] = {"failed": True} if seconds is None else {"runtime": seconds}
                lines.append(json.dumps({"workload": key, "id": name, **outcome, "program": text}))
        if lines:
            self._bundle.learn(key, None, lines)

    def predict(self, context: Any, candidates: Any) -> npt.NDArray[np.float64]:
        """float64 [candidates]: relative speeds."""
        if len(candidates) == 0:
            return np.empty(0, np.float64)
        model, texts = self._bundle.model, [program_text(candidate.sch.mod) for candidate in candidates]
        scores, failures = (
            model.score_tir_and_failures(texts) if model.predicts_failures else (model.score_tir(texts), None)
        )
        key = workload_key(context)
        self._unscored.note(key, scores, model.failure)
        return self._bundle.speeds(key, scores, failures).astype(np.float64)
