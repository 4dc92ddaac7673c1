"""Tables of measurements: a row a candidate, named columns, a run time; and models of them."""
from __future__ import annotations

import csv
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import programs
from .library import StrPath
from .model import open as open_model
from .model import rank

Rows = Union[StrPath, Iterable[Mapping[str, Any]], Any]


def _rows(table: Rows) -> list[Mapping[str, Any]]:
    """Rows of a CSV file, of a DataFrame, of a map of columns, or as they are."""
    if isinstance(table, (str, os.PathLike)):
        with open(table, newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            file.seek(0)
            return list(csv.DictReader(file, delimiter=max(",;\t", key=header.count)))
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        records: list[Mapping[str, Any]] = table.to_dict("records")
        return records
    if isinstance(table, Mapping):
        names, columns = list(table), [list(column) for column in table.values()]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                f"a table of columns with {sorted({len(column) for column in columns})} rows, expected the same in each"
            )
        return [dict(zip(names, row)) for row in zip(*columns)]
    return list(table)


def _write(rows: Sequence[Mapping[str, Any]], path: pathlib.Path) -> None:
    if not rows:
        raise ValueError("a table without rows, expected a row for each candidate")
    names = list(rows[0])
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for place, row in enumerate(rows):
            if set(row) != set(names):
                raise ValueError(
                    f"row {place}: columns {sorted(map(str, row))}, expected {sorted(map(str, names))} as in row 0"
                )
            writer.writerow(["" if row[name] is None else row[name] for name in names])


def pack_table(
    table: Rows,
    out: StrPath,
    *,
    runtime: str = "runtime",
    group: Iterable[str] = (),
    leave_out: Iterable[str] = (),
    failed: Iterable[object] = (),
    like: Optional[StrPath] = None,
    force: bool = False,
) -> str:
    """Packs a table by `foretime data pack-table`, and returns what that prints. An earlier packed table is replaced; any other file, and
    the table itself, only by `force`. `table`: a CSV file, a DataFrame, a map of columns, or rows as maps; `group`: the columns that
    describe the problem; `failed`: run times that mark failures, such as 0 or "timeout", besides None, NaN and known words; `like`: a
    packed table, or a bundle, whose columns these must be."""
    with tempfile.TemporaryDirectory(prefix="foretime-") as scratch:
        path = pathlib.Path(table) if isinstance(table, (str, os.PathLike)) else pathlib.Path(scratch) / "table.csv"
        if not isinstance(table, (str, os.PathLike)):
            _write(_rows(table), path)
        lists = {
            "--group": ",".join(group),
            "--leave-out": ",".join(leave_out),
            "--like": "" if like is None else os.fspath(like),
        }
        words = [word for option, value in lists.items() if value for word in (option, value)]
        words += [f"--failed={word}" for word in failed]
        return programs.run(
            "data",
            "pack-table",
            "-o",
            os.fspath(out),
            str(path),
            "--runtime",
            runtime,
            *words,
            *(["--force"] if force else []),
        )


class TableModel:
    """A model of a table, from a bundle that was trained on what `pack_table` wrote. Each call packs its rows by the program, which takes
    some tens of milliseconds whatever their number."""

    def __init__(self, bundle: StrPath, threads: int = 1) -> None:
        self._bundle = os.fspath(bundle)
        self._model = open_model(bundle, threads=threads)
        columns = self._model.describe().get("columns")
        if columns is None:
            raise ValueError(f"{self._bundle}: a model of no table; foretime.open opens it")
        self.group_columns, self.candidate_columns = (
            [item if isinstance(item, str) else next(iter(item)) for item in columns[part]]
            for part in ("group", "candidate")
        )

    def score(self, table: Rows) -> npt.NDArray[np.float32]:
        """float32 [rows]: lower is faster, to be compared among rows of one problem. Columns must be those that the model was trained on;
        others, and a run time, are refused."""
        rows = _rows(table)
        with tempfile.TemporaryDirectory(prefix="foretime-") as scratch:
            packed = pathlib.Path(scratch) / "rows.foretime"
            pack_table(rows, packed, like=self._bundle, runtime="")
            places: dict[str, list[int]] = {}
            for place, row in enumerate(rows):
                places.setdefault(
                    " ".join(f"{name}={str(row[name]).strip()}" for name in self.group_columns), []
                ).append(place)
            scores = np.empty(len(rows), np.float32)
            problems = self._model.read(packed)
            for name, problem in zip(problems.names, problems):  # without group columns there is one
                scores[places[name if self.group_columns else ""]] = self._model.score(problem)
        return scores

    def rank(self, table: Rows, top: Optional[int] = None) -> npt.NDArray[np.int64]:
        """int64 [top]: places of the rows of one problem, fastest first."""
        rows = _rows(table)
        problems = {tuple(str(row[name]) for name in self.group_columns) for row in rows}
        if len(problems) > 1:
            raise ValueError(
                f"rows of {len(problems)} problems ({', '.join(self.group_columns)}), expected one: rank them one by one"
            )
        return rank(self.score(rows), -1 if top is None else top)
