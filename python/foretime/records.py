"""Tuning records of auto_scheduler: lines of JSON, plain or gzip, by the workloads that they schedule."""
from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

import numpy as np
import numpy.typing as npt

from .library import StrPath


@dataclass
class Records:
    """The records of one workload, in the order of the file.

    `lines` as score_programs takes them; `seconds` float64 [records]: mean measured run time, +inf where the measurement failed, NaN
    where the line has none; `compute_dag`: the line of JSON that score_programs needs, None where `dags` had none.
    """

    workload_key: str
    lines: list[bytes] = field(repr=False)
    seconds: npt.NDArray[np.float64] = field(repr=False)
    compute_dag: Optional[bytes] = field(repr=False)

    def __len__(self) -> int:
        return len(self.lines)


def _lines(path: StrPath) -> Iterator[tuple[int, bytes]]:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if zipped else open(path, "rb") as source:
        for number, line in enumerate(source, 1):
            if line.strip() and not line.startswith((b"#", b" ")):
                yield number, line.rstrip(b"\r\n")


def _same_workload(key: str) -> str:
    """Keys are lists in JSON, which versions of TVM write with and without blanks."""
    return key.replace(" ", "")


def read_records(path: StrPath, dags: Optional[StrPath] = None) -> list[Records]:
    """The tuning records of a file, a Records for each workload, in the order of their first lines. `dags`: the compute DAGs of the
    workloads, as tools/data/export_dags.py writes them. ValueError names the line that is no record."""
    tables: dict[str, bytes] = {}
    if dags is not None:
        for number, line in _lines(dags):
            try:
                tables[_same_workload(json.loads(line)["workload_key"])] = line
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{os.fspath(dags)}:{number}: no compute DAG: {error!r:.200}") from error
    found: dict[str, tuple[list[bytes], list[float]]] = {}
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            key = record["i"][0][0]
            costs, failed = (record["r"][0], record["r"][1]) if "r" in record else ([], 0)
            seconds = np.inf if failed else float(np.mean(costs)) if costs else np.nan
            lines, times = found.setdefault(str(key), ([], []))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{os.fspath(path)}:{number}: no tuning record: {error!r:.200}") from error
        lines.append(line)
        times.append(seconds)
    return [
        Records(key, lines, np.array(times), tables.get(_same_workload(key))) for key, (lines, times) in found.items()
    ]
