"""libforetime through ctypes: the functions of foretime.h, and objects that close what they open."""
import ctypes
import ctypes.util
import json
import os
import threading
import weakref
from collections import OrderedDict
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_int8, c_size_t, c_uint8, c_void_p

import numpy as np

ABI_VERSION = 1
KINDS = ("layout", "tile", "loops", "trees")
COLLECTIONS = ("layout:xla:random", "layout:xla:default", "layout:nlp:random", "layout:nlp:default", "tile:xla")
LAYOUT_COLUMNS = 18
TILE_COLUMNS = 24
KEPT_WORKLOADS = 64


class ForetimeError(RuntimeError):
    """A call of libforetime that failed: `code` (foretime_status), `status` (its name), `message`."""

    def __init__(self, code, status, message):
        super().__init__(f"{message} ({status})" if message else status)
        self.code = code
        self.status = status
        self.message = message


class Options(Structure):
    """foretime_options"""

    _fields_ = [("size", c_size_t), ("threads", c_int32), ("max_states", c_int64)]


class GraphData(Structure):
    """foretime_graph_data"""

    _fields_ = [("size", c_size_t), ("nodes", c_int64), ("features", c_int64), ("node_features", POINTER(c_float)),
                ("node_types", POINTER(c_uint8)), ("edges", c_int64), ("edge_consumer", POINTER(c_int32)),
                ("edge_producer", POINTER(c_int32)), ("configurable", c_int64), ("configurable_nodes", POINTER(c_int32)),
                ("collection", c_int32), ("reserved", c_int32)]


_HANDLES = POINTER(c_void_p)
_TEXTS = POINTER(c_char_p)
_SIZES = POINTER(c_size_t)
_SCORES = POINTER(c_float)

# name: (result, arguments), as foretime.h declares them
PROTOTYPES = {
    "foretime_abi_version": (c_int, []),
    "foretime_version": (c_char_p, []),
    "foretime_status_name": (c_char_p, [c_int]),
    "foretime_last_error": (c_char_p, []),
    "foretime_open": (c_int, [c_char_p, POINTER(Options), _HANDLES]),
    "foretime_open_bytes": (c_int, [c_char_p, c_size_t, POINTER(Options), _HANDLES]),
    "foretime_close": (None, [c_void_p]),
    "foretime_model_kind": (c_int, [c_void_p]),
    "foretime_describe": (c_void_p, [c_void_p, _SIZES]),
    "foretime_graph_open": (c_int, [c_void_p, POINTER(GraphData), _HANDLES]),
    "foretime_graph_open_hlo": (c_int, [c_void_p, c_char_p, c_size_t, _HANDLES]),
    "foretime_graph_close": (None, [c_void_p]),
    "foretime_graph_nodes": (c_int64, [c_void_p]),
    "foretime_graph_configurable": (c_int64, [c_void_p]),
    "foretime_graph_configurable_nodes": (POINTER(c_int32), [c_void_p]),
    "foretime_score_layouts": (c_int, [c_void_p, POINTER(c_int8), c_int64, _SCORES]),
    "foretime_score_tiles": (c_int, [c_void_p, _SCORES, c_int64, _SCORES]),
    "foretime_workload_open": (c_int, [c_void_p, c_char_p, c_size_t, _HANDLES]),
    "foretime_workload_close": (None, [c_void_p]),
    "foretime_score_records": (c_int, [c_void_p, _TEXTS, _SIZES, c_int64, _SCORES, POINTER(c_int64)]),
    "foretime_score_tir": (c_int, [c_void_p, _TEXTS, _SIZES, c_int64, _SCORES, POINTER(c_int64)]),
    "foretime_predicts_failures": (c_int, [c_void_p]),
    "foretime_score_records_and_failures": (c_int, [c_void_p, _TEXTS, _SIZES, c_int64, _SCORES, _SCORES, POINTER(c_int64)]),
    "foretime_score_tir_and_failures": (c_int, [c_void_p, _TEXTS, _SIZES, c_int64, _SCORES, _SCORES, POINTER(c_int64)]),
    "foretime_rank": (c_int, [_SCORES, c_int64, c_int64, POINTER(c_int64)]),
    "foretime_runtimes": (c_int, [c_void_p, _SCORES, c_int64, POINTER(c_double)]),
}


def _pointer(array, kind):
    return array.ctypes.data_as(POINTER(kind))


def _as_bytes(text):
    return text.encode() if isinstance(text, str) else bytes(text)


def _exact(values, dtype, name):
    """The values as a contiguous array of this type; ValueError where that changes any."""
    given = np.asarray(values)
    converted = np.ascontiguousarray(given, dtype=dtype)
    if given.dtype != converted.dtype and not np.array_equal(given, converted):
        raise ValueError(f"{name}: {given.dtype} values that {converted.dtype} does not hold")
    return converted


class Library:
    """A loaded libforetime. `handle` is what ctypes.CDLL returns. Raises ForetimeError where its ABI is another one."""

    def __init__(self, handle):
        self._handle = handle
        found = handle.foretime_abi_version()  # before functions that another version may not have
        if found != ABI_VERSION:
            raise ForetimeError(1, "invalid argument", f"libforetime has ABI {found}, this package needs {ABI_VERSION}")
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(handle, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name[len("foretime_"):], function)

    def message(self):
        """The message of this thread's last failure."""
        return (self.last_error() or b"").decode(errors="replace")

    def check(self, status):
        """Raises what a call that did not return FORETIME_OK says."""
        if status != 0:
            name = (self.status_name(status) or b"").decode(errors="replace")
            raise ForetimeError(status, name, self.message())


_default = None
_default_lock = threading.Lock()


def _candidates():
    """Where the library may be: beside the package, where `cmake --install` puts it, where the system's loader looks."""
    package = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.join(package, "..", "..", "..", "..")
    for folder in (package, os.path.dirname(package), *(os.path.join(prefix, name) for name in ("lib", "lib64"))):
        path = os.path.normpath(os.path.join(folder, "libforetime.so"))
        if os.path.exists(path):
            yield path
    yield f"libforetime.so.{ABI_VERSION}"
    found = ctypes.util.find_library("foretime")
    if found:
        yield found


def load(path=None):
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


class _Handle:
    """Owns a pointer of the library, from the call that made it until `close` or the end of the object."""

    def __init__(self, library, pointer, close):
        self._library = library
        self._pointer = pointer
        self._finalizer = weakref.finalize(self, close, pointer)

    @property
    def _open(self):
        """The pointer, for calls of the library."""
        if not self._finalizer.alive:
            raise ValueError(f"{type(self).__name__.lower()} is closed")
        return self._pointer

    def close(self):
        """Closes; a second time does nothing."""
        self._finalizer()

    @property
    def closed(self):
        return not self._finalizer.alive

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _score_rows(self, function, rows, kind):
        """Scores [rows] float32 by a function that takes an array of this type."""
        scores = np.empty(len(rows), np.float32)
        self._library.check(function(self._open, _pointer(rows, kind), len(rows), _pointer(scores, c_float)))
        return scores

    def _score_texts(self, function, texts, outputs=1):
        """`outputs` arrays [texts] float32 by a function that takes so many."""
        texts = [_as_bytes(text) for text in texts]
        count = len(texts)
        results = [np.empty(count, np.float32) for _ in range(outputs)]
        sizes = np.fromiter(map(len, texts), np.dtype(c_size_t), count)
        failed = c_int64(0)
        self._library.check(function(self._open, (c_char_p * count)(*texts), _pointer(sizes, c_size_t), count,
                                     *(_pointer(result, c_float) for result in results), byref(failed)))
        return results

    def failure(self):
        """Why the first candidate without a score has none: for +inf in what this thread's last call returned."""
        return self._library.message()


class Workload(_Handle):
    """A compute DAG whose schedules are scored, prepared once (`Model.workload`). Any number of threads may score."""

    def score(self, records):
        """Scores [records] float32 of schedules: lines of auto_scheduler's JSON, "r" in them or not; +inf where `failure` says why."""
        return self._score_texts(self._library.score_records, records)[0]

    def score_and_failures(self, records):
        """(scores, chances), both [records] float32: of not building or running in time, NaN without a score. ForetimeError where
        the model does not tell (Model.predicts_failures)."""
        return tuple(self._score_texts(self._library.score_records_and_failures, records, 2))


class Graph(_Handle):
    """A graph whose candidates are scored, prepared once (`Model.graph`, `Model.hlo`). Any number of threads may score."""

    @property
    def nodes(self):
        return self._library.graph_nodes(self._open)

    @property
    def configurable_nodes(self):
        """Ids of the configurable nodes, ascending, int32."""
        count = self._library.graph_configurable(self._open)
        if count == 0:
            return np.empty(0, np.int32)
        return np.ctypeslib.as_array(self._library.graph_configurable_nodes(self._open), shape=(count,)).copy()

    def score_layouts(self, layouts):
        """Scores of layouts [candidates, configurable, 18]: output, input and kernel, six dimensions each, -1 where unused."""
        layouts = _exact(layouts, np.int8, "layouts")
        expected = (self._library.graph_configurable(self._open), LAYOUT_COLUMNS)
        if layouts.ndim != 3 or layouts.shape[1:] != expected:
            raise ValueError(f"layouts: shape {layouts.shape}, expected (candidates, {expected[0]}, {expected[1]})")
        return self._score_rows(self._library.score_layouts, layouts, c_int8)

    def score_tiles(self, tiles):
        """Scores of tile sizes [candidates, 24]: kernel, output and input bounds, six dimensions, sum and product each."""
        tiles = np.ascontiguousarray(tiles, np.float32)
        if tiles.ndim != 2 or tiles.shape[1] != TILE_COLUMNS:
            raise ValueError(f"tiles: shape {tiles.shape}, expected (candidates, {TILE_COLUMNS})")
        return self._score_rows(self._library.score_tiles, tiles, c_float)


class Model(_Handle):
    """An opened bundle. Never changes; any number of threads may use it.

    `source` is a path, or the bytes of a bundle; `threads` is how many one call may use; `max_states` bounds the memory of one
    call (0: the library's own bound).
    """

    def __init__(self, source, threads=1, max_states=0, library=None):
        library = library or load()
        options = Options(ctypes.sizeof(Options), threads, max_states)
        pointer = c_void_p()
        if isinstance(source, (bytes, bytearray, memoryview)):
            content = bytes(source)
            status = library.open_bytes(content, len(content), byref(options), byref(pointer))
        else:
            status = library.open(os.fsencode(source), byref(options), byref(pointer))
        library.check(status)
        super().__init__(library, pointer, library.close)
        self._manifest = None
        self._workloads = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path, threads=1, **options):
        return cls(path, threads, **options)

    @property
    def kind(self):
        """"layout", "tile", "loops" or "trees"."""
        return KINDS[self._library.model_kind(self._open)]

    @property
    def predicts_failures(self):
        """Whether it tells each program's chance not to build or run in time."""
        return bool(self._library.predicts_failures(self._open))

    def describe(self):
        """The bundle's manifest."""
        if self._manifest is None:
            size = c_size_t(0)
            text = self._library.describe(self._open, byref(size))
            self._manifest = json.loads(ctypes.string_at(text, size.value).decode())
        return self._manifest

    def _made(self, kind, function, *arguments):
        """An object of this kind, from what a call of the library makes of the model."""
        pointer = c_void_p()
        self._library.check(function(self._open, *arguments, byref(pointer)))
        return kind(self._library, pointer, getattr(self._library, kind.__name__.lower() + "_close"))

    def workload(self, compute_dag):
        """Prepares a workload from its compute DAG: JSON text or the dict that foretime.compute_dag makes."""
        text = _as_bytes(json.dumps(compute_dag) if isinstance(compute_dag, dict) else compute_dag)
        return self._made(Workload, self._library.workload_open, text, len(text))

    def score_records(self, compute_dag, records):
        """Scores of schedules of a DAG given as JSON text; the last DAGs stay prepared."""
        text = _as_bytes(compute_dag)
        with self._lock:
            workload = self._workloads.pop(text, None)
        workload = workload or self.workload(text)
        with self._lock:
            self._workloads[text] = workload
            while len(self._workloads) > KEPT_WORKLOADS:
                self._workloads.popitem(last=False)
        return workload.score(records)

    def score_tir(self, programs):
        """Scores [programs] float32 of save_json texts of a PrimFunc, or of an IRModule with one; +inf where `failure` says why."""
        return self._score_texts(self._library.score_tir, programs)[0]

    def score_tir_and_failures(self, programs):
        """(scores, chances of failure), as Workload.score_and_failures."""
        return tuple(self._score_texts(self._library.score_tir_and_failures, programs, 2))

    def graph(self, node_features, node_types, edge_index, configurable_nodes=(), collection=None):
        """Prepares a graph in the terms of TpuGraphs' .npz files.

        node_features [nodes, features], node_types [nodes] opcodes, edge_index [edges, 2] consumer and producer,
        configurable_nodes ascending; collection: one of COLLECTIONS, or None where it is not known.
        """
        features = np.ascontiguousarray(node_features, np.float32)
        if features.ndim != 2:
            raise ValueError(f"node_features: shape {features.shape}, expected (nodes, features)")
        types = _exact(node_types, np.uint8, "node_types").reshape(-1)
        if len(types) != len(features):
            raise ValueError(f"node_types: {len(types)}, expected {len(features)}, one for each node")
        edges = _exact(edge_index, np.int32, "edge_index")
        if edges.size == 0:
            edges = edges.reshape(0, 2)
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ValueError(f"edge_index: shape {edges.shape}, expected (edges, 2)")
        consumers, producers = np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])
        configurable = _exact(configurable_nodes, np.int32, "configurable_nodes").reshape(-1)
        data = GraphData(ctypes.sizeof(GraphData), len(features), features.shape[1], _pointer(features, c_float),
                         _pointer(types, c_uint8), len(edges), _pointer(consumers, c_int32), _pointer(producers, c_int32),
                         len(configurable), _pointer(configurable, c_int32),
                         0 if collection is None else 1 + COLLECTIONS.index(collection), 0)
        return self._made(Graph, self._library.graph_open, byref(data))

    def hlo(self, module):
        """Prepares the graph of an XLA module: bytes of HloModuleProto, HloProto or ModuleTuningData."""
        return self._made(Graph, self._library.graph_open_hlo, bytes(module), len(module))

    def runtimes(self, scores):
        """Seconds that scores stand for, float64; ForetimeError where the model does not predict run times."""
        scores = np.ascontiguousarray(scores, np.float32)
        seconds = np.empty(len(scores), np.float64)
        self._library.check(self._library.runtimes(self._open, _pointer(scores, c_float), len(scores), _pointer(seconds, c_double)))
        return seconds

    def rank(self, scores, top=-1):
        """Places of the `top` lowest scores (all: -1), lowest first."""
        return rank(scores, top, self._library)

    def close(self):
        """Closes the model; graphs and workloads that were made of it stay usable."""
        self._workloads.clear()
        super().close()


def rank(scores, top=-1, library=None):
    """Places of the `top` lowest scores (all: -1), lowest first; equal ones in their order, NaN last."""
    scores = np.ascontiguousarray(scores, np.float32)
    library = library or load()
    order = np.empty(len(scores) if top < 0 else min(top, len(scores)), np.int64)
    library.check(library.rank(_pointer(scores, c_float), len(scores), top, _pointer(order, c_int64)))
    return order
