"""Data files as NumPy arrays: .npz files, packed collections and XLA modules, read by libforetime."""
from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Sequence
from ctypes import byref, c_char_p, c_int64, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, Optional, overload

import numpy as np
import numpy.typing as npt

from .handles import Handle, Owned
from .library import LAYOUT_COLUMNS, ArrayData, Library, StrPath, load

if TYPE_CHECKING:
    from .model import Model


class _Lent:
    """Memory of a group, as NumPy asks for it: the array keeps this object, and this object the group."""

    def __init__(self, owned: Owned, found: ArrayData) -> None:
        self.owned = owned
        self.__array_interface__ = {
            "version": 3,
            "data": (found.data, True),
            "typestr": np.dtype(found.type.decode()).str,
            "shape": tuple(found.shape[: found.dimensions]),
        }


class Group(Handle):
    """What is ranked together: one graph with its configurations, or one workload with its programs. Never changes.

    `name`, `kind` ("layout", "tile", "programs"), `collection` (of TpuGraphs, "" for others), `unit` of run times ("nanoseconds",
    "seconds", "normalized"), `ids` (names of the candidates, [] where they have none); `len(group)`: candidates.
    """

    def __init__(self, library: Library, pointer: int) -> None:
        super().__init__(library, pointer, library.group_close)
        size = c_size_t(0)
        text = ctypes.string_at(library.group_describe(pointer, byref(size)), size.value)
        known: dict[str, Any] = json.loads(text.decode())
        self.name: str = known["name"]
        self.kind: str = known["kind"]
        self.collection: str = known["collection"]
        self.unit: str = known["unit"]
        self.ids: list[str] = known["ids"]
        self._candidates: int = known["candidates"]

    def __len__(self) -> int:
        return self._candidates

    def __repr__(self) -> str:
        return f"<foretime.Group {self.name}: {self._candidates} candidates, {self.kind}>"

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays by name, without a copy and read-only; they stay valid when the group is closed.

        graph_ptr, edge_ptr int64 [graphs + 1]; node_features float32 [nodes, features]; node_types uint8 [nodes]; edge_consumer,
        edge_producer int32 [edges]; runtimes, flops float64 [candidates]; of layouts configurable_nodes int32 [configurable],
        node_splits int64, layout_row_ptr int64 [configurable + 1], layout_rows int8 [rows, 18], layout_codes uint8
        [candidates, configurable]: candidate c has the row layout_row_ptr[j] + layout_codes[c, j] at node j; of tiles tile_features
        float32 [candidates, 24]. Empty ones are left out.
        """
        owned, views = self._use(), {}
        for place in range(self._library.group_arrays(owned.pointer)):
            found = ArrayData(ctypes.sizeof(ArrayData))
            self._library.check(self._library.group_array(owned.pointer, place, byref(found)))
            views[found.name.decode()] = np.asarray(_Lent(owned, found))
        return views

    @property
    def runtimes(self) -> npt.NDArray[np.float64]:
        """Run times [candidates] in `unit`, +inf where a program failed; all 0 where the file has none. A read-only view."""
        return self.arrays.get("runtimes", np.empty(0))

    @property
    def layouts(self) -> npt.NDArray[np.int8]:
        """Layouts [candidates, configurable, 18] of a layout group, as Graph.score_layouts takes them: written out from the codes, 18
        bytes for each candidate and node."""
        arrays = self.arrays
        if "layout_codes" not in arrays:
            raise ValueError(f"{self.name}: a group of {self.kind}, expected one of layouts")
        rows: npt.NDArray[np.int8] = arrays["layout_rows"][arrays["layout_codes"] + arrays["layout_row_ptr"][:-1]]
        assert rows.shape[2] == LAYOUT_COLUMNS
        return rows


class Files(Handle, Sequence[Group]):
    """The groups of files, sorted by name; each is read when it is asked for. `names` and `paths` are read from headers alone."""

    def __init__(self, library: Library, paths: Sequence[StrPath], kind: Optional[str], model: Optional[Model]) -> None:
        if not paths:
            raise ValueError("no path, expected .npz files, packed collections, folders or globs of them")
        patterns, pointer = [os.fsencode(path) for path in paths], c_void_p()
        owned = None if model is None else model._use()
        library.check(
            library.files_open(
                (c_char_p * len(patterns))(*patterns),
                len(patterns),
                kind and kind.encode(),
                owned and owned.pointer,
                byref(pointer),
            )
        )
        super().__init__(library, pointer.value or 0, library.files_close)

    def __len__(self) -> int:
        return int(self._library.files_count(self._use().pointer))

    def __repr__(self) -> str:
        if self.closed:
            return "<closed foretime.Files>"
        names = self.names
        return f"<foretime.Files of {len(names)} groups: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}>"

    @property
    def names(self) -> list[str]:
        owned = self._use()
        return [self._library.files_name(owned.pointer, place).decode() for place in range(len(self))]

    @property
    def paths(self) -> list[str]:
        """The file of each group."""
        owned = self._use()
        return [os.fsdecode(self._library.files_path(owned.pointer, place)) for place in range(len(self))]

    @overload
    def __getitem__(self, key: int) -> Group:
        ...

    @overload
    def __getitem__(self, key: str) -> Group:
        ...

    @overload
    def __getitem__(self, key: slice) -> list[Group]:
        ...

    def __getitem__(self, key: Any) -> Any:
        """The group at a place, or of a name."""
        if isinstance(key, slice):
            return [self[place] for place in range(*key.indices(len(self)))]
        if isinstance(key, str):
            names = self.names
            if key not in names:
                raise KeyError(
                    f"{key}: no such group; there are {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
                )
            key = names.index(key)
        count = len(self)
        place = key + count if key < 0 else key
        if not 0 <= place < count:
            raise IndexError(f"group {key}: there are {count}")
        owned, pointer = self._use(), c_void_p()
        self._library.check(self._library.group_open(owned.pointer, c_int64(place), byref(pointer)))
        return Group(self._library, pointer.value or 0)

    def __iter__(self) -> Iterator[Group]:
        return (self[place] for place in range(len(self)))


def read(*paths: StrPath, format: str) -> Files:  # noqa: A002
    """The groups of .npz files, packed collections (.foretime), XLA modules and tuning data (.pb), folders and globs of them, with their
    arrays as NumPy views. `format`: "layout", "tile" or "programs". To score groups, read them by Model.read."""
    return Files(load(), paths, format, None)
