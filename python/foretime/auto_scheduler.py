"""Foretime's models as cost models of TVM's auto_scheduler (TVM 0.8 to 0.19).

    model = ForetimeModel("cpu.foretime")
    policy = auto_scheduler.SketchPolicy(task, program_cost_model=model)
    task.tune(options, search_policy=policy)
"""
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from tvm import auto_scheduler
from tvm.auto_scheduler import _ffi_api
from tvm.auto_scheduler.cost_model.cost_model import PythonBasedModel

from .finetuning import COMMAND, BundleInUse
from .compute_dag import compute_dag
from .library import ForetimeError, Library, StrPath
from .model import Workload
from .scores import UnknownMachines, Unscored

HOPELESS = 64  # schedules of a workload without a score after which none is expected


def record_lines(task: Any, states: Any) -> list[str]:
    """The states as lines of auto_scheduler's JSON, without results. `states`: StateObjects, as cost models get them."""
    make, serialize = _ffi_api.MeasureInput, _ffi_api.SerializeMeasureInput
    return ['{"i": ' + serialize(make(task, state)) + "}" for state in states]


class ForetimeModel(PythonBasedModel):
    """Scores states by a bundle. It is trained: there are no random scores until enough was measured.

    Scores are relative speeds (foretime.scores.Scale): positive, higher is faster; where the bundle tells chances of failure, times the
    chance that a state builds and runs. A state that Foretime cannot replay is unknown: it gets the speed of an average one, and a
    warning says how many there are and why. The JSON of a task's compute DAG is made once. Measured records are collected, those that
    failed as well; with `finetune_every`, a new bundle is made of them after every so many, by `finetune_command`
    (foretime.finetuning), and takes the first one's place.
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
        self._bundle = BundleInUse(bundle, threads, library, finetune_every, finetune_command, finetune_folder)
        self._tables: dict[str, str] = {}
        self._forget()
        super().__init__()

    @property
    def records(self) -> list[str]:
        """The lines collected so far."""
        return self._bundle.records

    def predict(self, task: Any, states: Any) -> npt.NDArray[np.float32]:
        """float32 [states]: relative speeds."""
        if len(states) == 0:
            return np.empty(0, np.float32)
        key = task.workload_key
        if key not in self._workloads:
            self._machines.note(self._bundle.model, str(task.target))
            self._workloads[key] = self._bundle.model.workload(self._table(task))
        workload = self._workloads[key]
        lines = record_lines(task, states)
        scores, failures = (
            workload.score_and_failures(lines)
            if self._bundle.model.predicts_failures
            else (workload.score(lines), None)
        )
        never = self._unscored.note(key, scores, workload.failure)
        if never >= HOPELESS:  # the search would look for one for ever
            raise ForetimeError(
                4,
                "bad input",
                f"none of {never} schedules of {key} has a score; the first of the last ones: " f"{workload.failure()}",
            )
        return self._bundle.speeds(key, scores, failures)

    def predict_stages(self, task: Any, states: Any) -> npt.NDArray[np.float32]:
        """Speeds of the states, then for each the number of stages that have one of their own: none."""
        return np.concatenate((self.predict(task, states), np.zeros(len(states), np.float32)))

    def update(self, inputs: Any, results: Any) -> None:
        """Collects what was measured, and fine-tunes when that is due."""
        lines: dict[str, list[str]] = {}
        for measured, result in zip(inputs, results):
            self._table(measured.task)
            line = auto_scheduler.measure_record.dump_record_to_string(measured, result)
            lines.setdefault(measured.task.workload_key, []).append(line)
        learned = [self._bundle.learn(key, self._tables[key], of_task) for key, of_task in lines.items()]
        if any(learned):
            self._forget()

    def update_from_file(self, file_name: str, n_lines: Optional[int] = None) -> None:
        """Takes the records of a log as if they had been measured now. Their workloads must be registered."""
        self.update(*auto_scheduler.RecordReader(file_name).read_lines(n_lines))

    def load(self, file_name: str) -> None:
        """Goes on with another bundle; forgets collected records. Where it cannot be opened nothing changes."""
        self._bundle.load(file_name)
        self._forget()

    def save(self, file_name: str) -> None:
        """Copies the bundle in use."""
        self._bundle.save(file_name)

    def _forget(self) -> None:
        """What belongs to a bundle that is not in use any more."""
        self._workloads: dict[str, Workload] = {}
        self._unscored = Unscored()
        self._machines = UnknownMachines()

    def _table(self, task: Any) -> str:
        key = task.workload_key
        if key not in self._tables:
            dag = task.compute_dag or auto_scheduler.ComputeDAG(key)
            self._tables[key] = json.dumps(compute_dag(dag, key), ensure_ascii=False)
        return self._tables[key]
