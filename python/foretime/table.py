"""Columns by name: what metrics and rankings are read as, without pandas, and with it."""
from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_SHOWN = 20  # rows of a table in a notebook


def _column(values: list[Any]) -> npt.NDArray[Any]:
    """float64, or int64 where all are whole numbers; else texts."""
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return np.array(values, np.int64)
    if all(value is None or isinstance(value, (int, float)) for value in values):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return np.array(["" if value is None else str(value) for value in values])


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None if text == "" else text


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Table(Mapping[str, npt.NDArray[Any]]):
    """Columns of equal length: table["loss"] is an array, `len(table.rows())` how many rows there are, `to_pandas()` a DataFrame."""

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self._columns = dict(columns)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """Of maps that need not have the same keys."""
        names = list(dict.fromkeys(key for row in rows for key in row))
        return cls({name: _column([row.get(name) for row in rows]) for name in names})

    @classmethod
    def of_texts(cls, rows: Sequence[Mapping[str, str]], names: Sequence[str], texts: Sequence[str] = ()) -> Table:
        """Of a CSV file's rows: columns whose values are all numbers, or empty, become numbers, but `texts`."""
        columns = {}
        for name in names:
            values = [_number(row[name]) for row in rows]
            plain = name in texts or any(isinstance(value, str) for value in values)
            columns[name] = _column([row[name] for row in rows] if plain else values)
        return cls(columns)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._columns:
            raise KeyError(f"{name}: no such column; there are {', '.join(self._columns) or 'none'}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def rows(self) -> list[dict[str, Any]]:
        """A map for each row."""
        return [
            dict(zip(self._columns, values)) for values in zip(*(column.tolist() for column in self._columns.values()))
        ]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame; ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame(self._columns)

    def _count(self) -> int:
        return len(next(iter(self._columns.values()))) if self._columns else 0

    def _repr_html_(self) -> str:
        """The table of a notebook: the first and the last rows where there are many."""
        count = self._count()
        places = (
            range(count)
            if count <= MOST_SHOWN
            else [*range(MOST_SHOWN // 2), None, *range(count - MOST_SHOWN // 2, count)]
        )
        lines = ["".join(f"<th>{html.escape(str(name))}</th>" for name in self._columns)]
        for place in places:
            cells = ("…" if place is None else _shown(column[place]) for column in self._columns.values())
            lines.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table><p>{count} rows</p>"

    def __repr__(self) -> str:
        count = self._count()
        return f"<foretime.Table of {count} rows: {', '.join(self._columns)}>"
