"""What MetaSchedule makes, measures and stores, as programs that Foretime reads: candidates, modules and databases."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

from .library import StrPath
from .tir_program import Unreadable, program_text, target_text
from .tvm_names import Names

FAILED = 1e10  # seconds that TVM writes for a measurement that failed
WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"


def last_line(error: BaseException) -> str:
    """What an error of TVM says; its first lines are places in TVM's sources."""
    return (str(error).strip().splitlines() or [repr(error)])[-1][:200]


def module_text(names: Names, module: Any, target: Any = None) -> str:
    """The text of a scheduled module: its one PrimFunc, lowered by this TVM as far as loops and buffers go. Raises Unreadable."""
    try:
        for lower in names.passes:
            module = lower(module)
    except Exception as error:  # TVM's errors have no type in common over its releases
        raise Unreadable(f"TVM does not lower it: {last_line(error)}") from None
    functions = [function for _, function in module.functions.items() if isinstance(function, names.prim_func)]
    if len(functions) != 1:
        raise Unreadable(f"a module of {len(functions)} functions of TIR, expected one")
    return program_text(functions[0], target_text(target) if target is not None else "", names.version)


def workload_key(names: Names, module: Any) -> str:
    """Names the module that a search tunes."""
    return str(names.structural_hash(module)) if module is not None else "module"


def mean_seconds(seconds: Optional[Iterable[Any]]) -> Optional[float]:
    """The mean of measured run times, or None where none was measured well."""
    values = [float(getattr(value, "value", value)) for value in seconds or ()]
    known = [value for value in values if 0.0 < value < FAILED]
    return sum(known) / len(known) if known else None


def record_line(key: str, name: str, seconds: Optional[float], text: str) -> str:
    """A line of JSON for `foretime data pack-tir`, `finetune` and `rank`; `seconds` None: the program failed."""
    outcome: dict[str, Any] = {"failed": True} if seconds is None else {"runtime": seconds}
    return json.dumps({"workload": key, "id": name, **outcome, "program": text})


@dataclass(frozen=True)
class DatabaseProgram:
    """A record of a database. `text` is None where `failure` says why this TVM does not make the program of it."""

    place: str  # FILE:LINE, from 1
    key: str
    name: str
    seconds: Optional[float]  # None: it was measured, and failed
    text: Optional[str]
    failure: str = ""

    def line(self) -> str:
        """The program as record_line has it."""
        return record_line(self.key, self.name, self.seconds, self.text or "")


def _lines(path: pathlib.Path) -> Iterator[tuple[int, Any]]:
    """(line from 1, its JSON). Raises ValueError for a line that is none."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path}:{number}: no JSON: {error}") from None


def read_database(names: Names, folder: StrPath) -> Iterator[DatabaseProgram]:
    """The programs of a database: a folder with database_workload.json and database_tuning_record.json, the work_dir of a search.

    TVM replays the traces, so it has to be a release whose JSON of modules and names of instructions are those of the database:
    0.10 to 0.20, 0.21 to 0.23, or 0.24 on. Raises FileNotFoundError where a file is missing, ValueError where one is damaged
    or of another release.
    """
    folder = pathlib.Path(folder)
    for name in (WORKLOADS, RECORDS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder / name}: no such file; a database is a folder with both of them (work_dir of a tuning)"
            )
    workloads = []
    for number, content in _lines(folder / WORKLOADS):
        try:
            workload = names.workload.from_json(content)
            workloads.append((workload, workload_key(names, workload.mod)))
        except Exception as error:
            raise ValueError(
                f"{folder / WORKLOADS}:{number}: no workload that TVM {names.version} reads: {last_line(error)}"
            ) from None
    records = folder / RECORDS
    for number, (index, content) in _lines(records):
        place, key, name = f"{records}:{number}", "", f"{os.path.basename(folder.resolve())}:{number - 1}"
        seconds, text, failure = None, None, ""
        try:
            workload, key = workloads[int(index)]
            record = names.tuning_record.from_json(content, workload)
            if content[1] is None:
                raise Unreadable("it was not measured")
            seconds = mean_seconds(content[1])
            schedule = names.schedule(workload.mod)
            record.trace.apply_to_schedule(schedule, remove_postproc=False)
            text = module_text(names, schedule.mod, record.target)
        except Exception as error:
            failure = last_line(error)
        yield DatabaseProgram(place, key, name, seconds, text, failure)
