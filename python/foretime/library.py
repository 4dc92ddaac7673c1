"""libforetime through ctypes: the functions and structures of foretime.h, and where the library is."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from collections.abc import Iterator
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Optional, Union

StrPath = Union[str, os.PathLike[str]]
ABI_VERSION = 1
KINDS = ("layout", "tile", "loops", "trees")
COLLECTIONS = ("layout:xla:random", "layout:xla:default", "layout:nlp:random", "layout:nlp:default", "tile:xla")
LAYOUT_COLUMNS = 18
TILE_COLUMNS = 24


class ForetimeError(RuntimeError):
    """A call of libforetime that failed: `code` (foretime_status), `status` (its name), `message`."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(f"{message} ({status})" if message else status)
        self.code = code
        self.status = status
        self.message = message


class Options(Structure):
    """foretime_options"""

    _fields_ = [("size", c_size_t), ("threads", c_int32), ("max_states", c_int64)]


class ArrayData(Structure):
    """foretime_array"""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("dimensions", c_int64),
        ("shape", c_int64 * 3),
        ("data", c_void_p),
    ]


class GraphData(Structure):
    """foretime_graph_data"""

    _fields_ = [
        ("size", c_size_t),
        ("nodes", c_int64),
        ("features", c_int64),
        ("node_features", c_void_p),
        ("node_types", c_void_p),
        ("edges", c_int64),
        ("edge_consumer", c_void_p),
        ("edge_producer", c_void_p),
        ("configurable", c_int64),
        ("configurable_nodes", c_void_p),
        ("collection", c_int32),
        ("reserved", c_int32),
    ]


_HANDLES = POINTER(c_void_p)
_TEXTS = POINTER(c_char_p)
_SIZES = POINTER(c_size_t)
_ARRAY = c_void_p  # the address of a NumPy array: ten times as quick to make as a typed pointer

# name: (result, arguments), as foretime.h declares them
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "foretime_abi_version": (c_int, []),
    "foretime_version": (c_char_p, []),
    "foretime_status_name": (c_char_p, [c_int]),
    "foretime_last_error": (c_char_p, []),
    "foretime_open": (c_int, [c_char_p, POINTER(Options), _HANDLES]),
    "foretime_open_bytes": (c_int, [c_char_p, c_size_t, POINTER(Options), _HANDLES]),
    "foretime_close": (None, [c_void_p]),
    "foretime_model_kind": (c_int, [c_void_p]),
    "foretime_model_file": (c_char_p, [c_void_p]),
    "foretime_describe": (c_void_p, [c_void_p, _SIZES]),
    "foretime_graph_open": (c_int, [c_void_p, POINTER(GraphData), _HANDLES]),
    "foretime_graph_open_hlo": (c_int, [c_void_p, c_char_p, c_size_t, _HANDLES]),
    "foretime_graph_close": (None, [c_void_p]),
    "foretime_graph_nodes": (c_int64, [c_void_p]),
    "foretime_graph_configurable": (c_int64, [c_void_p]),
    "foretime_graph_configurable_nodes": (POINTER(c_int32), [c_void_p]),
    "foretime_score_layouts": (c_int, [c_void_p, _ARRAY, c_int64, _ARRAY]),
    "foretime_score_tiles": (c_int, [c_void_p, _ARRAY, c_int64, _ARRAY]),
    "foretime_workload_open": (c_int, [c_void_p, c_char_p, c_size_t, _HANDLES]),
    "foretime_workload_close": (None, [c_void_p]),
    "foretime_score_records": (c_int, [c_void_p, _TEXTS, _ARRAY, c_int64, _ARRAY, POINTER(c_int64)]),
    "foretime_score_tir": (c_int, [c_void_p, _TEXTS, _ARRAY, c_int64, _ARRAY, POINTER(c_int64)]),
    "foretime_predicts_failures": (c_int, [c_void_p]),
    "foretime_unknown_machine": (c_char_p, [c_void_p, c_char_p]),
    "foretime_score_records_and_failures": (
        c_int,
        [c_void_p, _TEXTS, _ARRAY, c_int64, _ARRAY, _ARRAY, POINTER(c_int64)],
    ),
    "foretime_score_tir_and_failures": (c_int, [c_void_p, _TEXTS, _ARRAY, c_int64, _ARRAY, _ARRAY, POINTER(c_int64)]),
    "foretime_files_open": (c_int, [_TEXTS, c_int64, c_char_p, c_void_p, _HANDLES]),
    "foretime_files_close": (None, [c_void_p]),
    "foretime_files_count": (c_int64, [c_void_p]),
    "foretime_files_name": (c_char_p, [c_void_p, c_int64]),
    "foretime_files_path": (c_char_p, [c_void_p, c_int64]),
    "foretime_group_open": (c_int, [c_void_p, c_int64, _HANDLES]),
    "foretime_group_close": (None, [c_void_p]),
    "foretime_group_candidates": (c_int64, [c_void_p]),
    "foretime_group_describe": (c_void_p, [c_void_p, _SIZES]),
    "foretime_group_arrays": (c_int64, [c_void_p]),
    "foretime_group_array": (c_int, [c_void_p, c_int64, POINTER(ArrayData)]),
    "foretime_score_group": (c_int, [c_void_p, c_void_p, _ARRAY, _ARRAY]),
    "foretime_graph_open_group": (c_int, [c_void_p, c_void_p, _HANDLES]),
    "foretime_rank": (c_int, [_ARRAY, c_int64, c_int64, _ARRAY]),
    "foretime_runtimes": (c_int, [c_void_p, _ARRAY, c_int64, _ARRAY]),
}


class Library:
    """A loaded libforetime. `handle` is what ctypes.CDLL returns. Raises ForetimeError where its ABI is another one."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        self._handle = handle
        found = handle.foretime_abi_version()  # before functions that another version may not have
        if found != ABI_VERSION:
            raise ForetimeError(1, "invalid argument", f"libforetime has ABI {found}, this package needs {ABI_VERSION}")
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(handle, name, None)
            if function is None:  # an earlier library of this ABI: what it has works
                continue
            function.restype = result
            function.argtypes = arguments
            setattr(self, name[len("foretime_") :], function)

    def __getattr__(self, name: str) -> Any:
        if f"foretime_{name}" not in PROTOTYPES:
            raise AttributeError(name)
        raise ForetimeError(
            1, "invalid argument", f"libforetime {self.version().decode()} has no foretime_{name}: install a later one"
        )

    def message(self) -> str:
        """The message of this thread's last failure."""
        text: bytes = self.last_error() or b""
        return text.decode(errors="replace")

    def check(self, status: int) -> None:
        """Raises what a call that did not return FORETIME_OK says."""
        if status != 0:
            name: bytes = self.status_name(status) or b""
            raise ForetimeError(status, name.decode(errors="replace"), self.message())


_default: Optional[Library] = None
_default_lock = threading.Lock()


def _candidates() -> Iterator[str]:
    """Where the library may be: in the package, where `cmake --install` puts it, in the checkout's build, where the system's loader
    looks."""
    package = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.join(package, "..", "..", "..", "..")
    builds = os.path.join(package, "..", "..", "build")  # tools/package/python_wheel.py makes that in `python`
    built = [os.path.join(builds, name, "inference", "capi") for name in ("release", "python")]
    for folder in (
        package,
        os.path.dirname(package),
        *(os.path.join(prefix, name) for name in ("lib", "lib64")),
        *built,
    ):
        path = os.path.normpath(os.path.join(folder, "libforetime.so"))
        if os.path.exists(path):
            yield path
    yield f"libforetime.so.{ABI_VERSION}"
    found = ctypes.util.find_library("foretime")
    if found:
        yield found


def load(path: Optional[StrPath] = None) -> Library:
    """The library at `path`; without it, the one that FORETIME_LIBRARY names, else the one installed with the package, else the
    system's.

    The latter is loaded once. Raises OSError, which says what was looked for.
    """
    global _default
    if path is not None:
        return Library(ctypes.CDLL(os.fspath(path)))
    with _default_lock:
        if _default is None:
            named = os.environ.get("FORETIME_LIBRARY")
            tried = [named] if named else list(_candidates())
            errors = []
            for candidate in tried:
                try:
                    _default = Library(ctypes.CDLL(candidate))
                    break
                except OSError as error:
                    errors.append(str(error))
            else:
                raise OSError("libforetime.so: set FORETIME_LIBRARY to its path; " + "; ".join(errors))
        return _default
