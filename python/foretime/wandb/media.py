"""Tables, pictures and other values that are no numbers: they are kept as files of the run."""
from __future__ import annotations

import importlib
import json
import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any, Callable, Optional

from ..logged_run import plain_json


def array_of(value: Any) -> Any:
    """Returns a tensor or an array as NumPy's array; None if it is neither, or NumPy is missing."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        return None
    for method in ("detach", "cpu", "numpy"):
        if hasattr(value, method):
            value = getattr(value, method)()
    return value if isinstance(value, np.ndarray) else None


def write_value(value: Any, place: pathlib.Path) -> pathlib.Path:
    """Writes a value beside the path `place`, which has no ending, and returns the file. Files are copied, figures drawn, arrays saved;
    of anything else its text is kept."""
    if isinstance(value, Media):
        return value.write(place)
    if isinstance(value, (str, os.PathLike)) and os.path.isfile(value):
        path = place.with_name(place.name + pathlib.Path(value).suffix)
        shutil.copyfile(value, path)
        return path
    for method, ending in (("savefig", ".png"), ("write_html", ".html")):
        save: Optional[Callable[..., Any]] = getattr(value, method, None)
        if callable(save):
            save(str(place.with_name(place.name + ending)))
            return place.with_name(place.name + ending)
    if hasattr(value, "mode") and callable(getattr(value, "save", None)):  # a picture of PIL
        path = place.with_name(place.name + ".png")
        value.save(str(path))
        return path
    array = array_of(value)
    if array is not None:
        import numpy as np

        path = place.with_name(place.name + ".npy")
        np.save(path, array)
        return path
    path = place.with_name(place.name + ".json")
    path.write_text(json.dumps(plain_json(value)) + "\n", encoding="utf-8")
    return path


class Media:
    """A value that has no place among numbers. Subclasses carry W&B's names."""

    def __init__(self, data_or_path: Any = None, *more: Any, caption: Optional[str] = None, **options: Any) -> None:
        self.data = data_or_path
        self.caption = caption
        self.more = more
        self.options = options

    def write(self, place: pathlib.Path) -> pathlib.Path:
        """Writes the value, and a caption in a file of its own; returns the first file."""
        path = write_value(self.data, place)
        if self.caption:
            place.with_name(place.name + ".caption.txt").write_text(f"{self.caption}\n", encoding="utf-8")
        return path


class Image(Media):
    """A picture: of PIL, an array, a tensor, a figure, or a file."""

    def write(self, place: pathlib.Path) -> pathlib.Path:
        array = array_of(self.data)
        if array is not None:
            try:
                self.data = importlib.import_module("PIL.Image").fromarray(_pixels(array))
            except (ModuleNotFoundError, TypeError, ValueError):  # kept as an array
                pass
        return super().write(place)


def _pixels(array: Any) -> Any:
    """Returns an array as [height, width] or [height, width, 3 or 4] of bytes, as PIL takes it. A batch shows its first picture."""
    while array.ndim > 3:
        array = array[0]
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        array = (array - low) / (high - low) * 255 if high > 1 or low < 0 else array * 255
    return array.astype("uint8")


class Video(Media):
    """A film: an array or a file."""


class Audio(Media):
    """Sound: an array or a file."""


class Object3D(Media):
    """Points or a file of a scene."""


class Molecule(Media):
    """A file of a molecule."""


class Plotly(Media):
    """A figure of Plotly."""


class Bokeh(Media):
    """A figure of Bokeh."""


class Graph(Media):
    """The structure of a model."""


class Html(Media):
    """A page: its text, or a file."""

    def write(self, place: pathlib.Path) -> pathlib.Path:
        text = self.data.read() if hasattr(self.data, "read") else self.data
        if isinstance(text, str) and not os.path.isfile(text):
            path = place.with_name(place.name + ".html")
            path.write_text(text, encoding="utf-8")
            return path
        return super().write(place)


class Histogram(Media):
    """Counts of values: the values, or `np_histogram`, the pair that numpy.histogram returns."""

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> None:
        super().__init__(sequence)
        if np_histogram is None and sequence is not None:
            array = array_of(sequence)
            try:
                import numpy as np

                np_histogram = np.histogram(np.asarray(sequence if array is None else array).ravel(), bins=num_bins)
            except ModuleNotFoundError:
                np_histogram = ([], [])
        self.histogram, self.bins = np_histogram if np_histogram is not None else ([], [])

    def write(self, place: pathlib.Path) -> pathlib.Path:
        return write_value({"counts": self.histogram, "edges": self.bins}, place)


class Table(Media):
    """Rows with named columns."""

    def __init__(
        self,
        columns: Optional[Sequence[Any]] = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        dtype: Any = None,
        optional: Any = True,
        allow_mixed_types: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        data = rows if data is None else data
        if data is not None and hasattr(data, "columns") and dataframe is None:
            data, dataframe = None, data
        if dataframe is not None:
            columns, data = list(dataframe.columns), dataframe.values.tolist()
        self.columns: list[Any] = list(
            columns if columns is not None else [] if data is not None else ["Input", "Output", "Expected"]
        )
        self.data: list[list[Any]] = [list(row) for row in (data if data is not None else [])]
        if not self.columns and self.data:
            self.columns = list(range(1, len(self.data[0]) + 1))

    def add_data(self, *values: Any) -> None:
        """Appends a row."""
        self.data.append(list(values))

    def add_row(self, *values: Any) -> None:
        """Appends a row."""
        self.add_data(*values)

    def add_column(self, name: str, data: Sequence[Any], optional: bool = False) -> None:
        """Appends a column."""
        self.columns.append(name)
        if not self.data:
            self.data = [[] for _ in data]
        for row, value in zip(self.data, data):
            row.append(value)

    def get_column(self, name: str, convert_to: Optional[str] = None) -> Any:
        """Returns the values of a column."""
        place = self.columns.index(name)
        values = [row[place] for row in self.data]
        if convert_to == "numpy":
            import numpy as np

            return np.array(values)
        return values

    def iterrows(self) -> Any:
        """Iterates over numbers and rows."""
        return enumerate(self.data)

    def get_dataframe(self) -> Any:
        """Returns the table as a DataFrame."""
        import pandas

        return pandas.DataFrame(self.data, columns=self.columns)

    def write(self, place: pathlib.Path) -> pathlib.Path:
        rows = []
        for number, row in enumerate(self.data):
            rows.append(
                [
                    write_value(cell, place.with_name(f"{place.name}-{number}-{column}")).name
                    if isinstance(cell, Media)
                    else cell
                    for column, cell in enumerate(row)
                ]
            )
        return write_value({"columns": self.columns, "data": rows}, place)


class Plot(Media):
    """A chart of wandb.plot: its name and arguments."""

    def __init__(self, name: str, arguments: Sequence[Any], options: dict[str, Any]) -> None:
        super().__init__(
            {
                "plot": name,
                "arguments": [_data(item) for item in arguments],
                "options": {key: _data(item) for key, item in options.items()},
            }
        )


def _data(value: Any) -> Any:
    return {"columns": value.columns, "data": value.data} if isinstance(value, Table) else value
