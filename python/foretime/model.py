"""Models, graphs and workloads: what is opened once and scores any number of times, from any number of threads."""
from __future__ import annotations

import ctypes
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from ctypes import byref, c_size_t, c_void_p
from typing import Any, Optional, TypeVar, Union

import numpy as np
import numpy.typing as npt

from .groups import Files, Group
from .handles import Floats, Handle, Text, as_bytes, exact
from .library import COLLECTIONS, KINDS, LAYOUT_COLUMNS, TILE_COLUMNS, GraphData, Library, Options, StrPath, load

KEPT_WORKLOADS = 64
Made = TypeVar("Made", bound=Handle)


class Workload(Handle):
    """A compute DAG whose schedules are scored, prepared once (`Model.workload`). Any number of threads may score."""

    def score(self, records: Iterable[Text]) -> Floats:
        """Scores [records] of schedules: lines of auto_scheduler's JSON, "r" in them or not; +inf where `failure` says why."""
        return self._score_texts(self._library.score_records, records)[0]

    def score_and_failures(self, records: Iterable[Text]) -> tuple[Floats, Floats]:
        """(scores, chances), both [records]: of not building or running in time, 0 to 1, NaN without a score. ForetimeError where the
        model does not tell (Model.predicts_failures)."""
        scores, failures = self._score_texts(self._library.score_records_and_failures, records, 2)
        return scores, failures


class Graph(Handle):
    """A graph whose candidates are scored, prepared once (`Model.graph`, `Model.hlo`). Any number of threads may score."""

    def __init__(self, library: Library, pointer: int, close: Callable[[int], None]) -> None:
        super().__init__(library, pointer, close)
        self._configurable = int(library.graph_configurable(pointer))

    @property
    def nodes(self) -> int:
        """How many nodes the graph has."""
        return int(self._library.graph_nodes(self._use().pointer))

    @property
    def configurable_nodes(self) -> npt.NDArray[np.int32]:
        """Ids [configurable] of the nodes that have layouts, ascending."""
        owned = self._use()
        if self._configurable == 0:
            return np.empty(0, np.int32)
        return np.ctypeslib.as_array(
            self._library.graph_configurable_nodes(owned.pointer), shape=(self._configurable,)
        ).copy()

    def score_layouts(self, layouts: npt.ArrayLike) -> Floats:
        """Scores [candidates] of layouts [candidates, configurable, 18]: whole numbers -1 to 127; output, input and kernel layout of each
        configurable node, six dimensions each, minor to major, -1 where unused."""
        layouts = exact(layouts, np.int8, "layouts")
        configurable = self._configurable
        if layouts.ndim != 3 or layouts.shape[1] != configurable or layouts.shape[2] != LAYOUT_COLUMNS:
            raise ValueError(f"layouts: shape {layouts.shape}, expected (candidates, {configurable}, {LAYOUT_COLUMNS})")
        return self._score_rows(self._library.score_layouts, layouts)

    def score_tiles(self, tiles: npt.ArrayLike) -> Floats:
        """Scores [candidates] of tile sizes [candidates, 24]: kernel, output and input bounds, six each in elements, and after each six
        their sum and their product."""
        tiles = np.ascontiguousarray(tiles, np.float32)
        if tiles.ndim != 2 or tiles.shape[1] != TILE_COLUMNS:
            raise ValueError(f"tiles: shape {tiles.shape}, expected (candidates, {TILE_COLUMNS})")
        return self._score_rows(self._library.score_tiles, tiles)


class Model(Handle):
    """An opened bundle (`foretime.open`). Never changes; any number of threads may use it, and calls release Python's lock.

    `source` is a path, the name of a model that comes with Foretime, or the bytes of a bundle; `threads` is how many one call may use; `max_states` bounds the memory of one
    call (states that a thread holds at once; 0: the library's own bound). Raises ForetimeError, which says what is wrong with the file.
    """

    def __init__(
        self,
        source: Union[StrPath, bytes, bytearray, memoryview],
        threads: int = 1,
        max_states: int = 0,
        library: Optional[Library] = None,
    ) -> None:
        library = library or load()
        options = Options(ctypes.sizeof(Options), threads, max_states)
        pointer = c_void_p()
        if isinstance(source, (bytes, bytearray, memoryview)):
            content = bytes(source)
            status = library.open_bytes(content, len(content), byref(options), byref(pointer))
        else:
            status = library.open(os.fsencode(source), byref(options), byref(pointer))
        library.check(status)
        super().__init__(library, pointer.value or 0, library.close)
        self._maker = object()
        self._options = (threads, max_states)
        self._manifest: Optional[dict[str, Any]] = None
        self._workloads: OrderedDict[bytes, Workload] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: StrPath, threads: int = 1, **options: Any) -> Model:
        return cls(path, threads, **options)

    @property
    def kind(self) -> str:
        """What it scores: "layout", "tile", "loops" (loop programs: records or TIR) or "trees" (syntax trees: TIR)."""
        return KINDS[self._library.model_kind(self._use().pointer)]

    def __reduce__(self) -> Any:
        """By the absolute path of its bundle, which has to be there where it is loaded."""
        if not self.file:
            raise TypeError(
                "foretime.Model of bytes cannot be pickled or copied, expected one that was opened from a file"
            )
        return type(self), (os.path.abspath(self.file), *self._options)

    def __repr__(self) -> str:
        return "<closed foretime.Model>" if self.closed else f"<foretime.Model of {self.kind}>"

    @property
    def predicts_failures(self) -> bool:
        """Whether it tells each program's chance not to build or run in time."""
        return bool(self._library.predicts_failures(self._use().pointer))

    def unknown_machine(self, target: str) -> str:
        """The machine that a TVM target names (`-model=`), where the model does not know it, so that its caches and rates are guessed
        (docs/how-to/describe-a-machine.md); of a model that knows machines, words that say so where a CPU's target names none; else "".
        """
        name: bytes = self._library.unknown_machine(self._use().pointer, target.encode())
        return name.decode()

    @property
    def predicts_runtimes(self) -> bool:
        """Whether scores stand for run times (`runtimes`)."""
        return bool(self.describe().get("predicts_runtimes"))

    @property
    def file(self) -> str:
        """The bundle's path, also where it was opened by the name of a model that comes with Foretime; "" of bytes."""
        return os.fsdecode(self._library.model_file(self._use().pointer))

    def describe(self) -> dict[str, Any]:
        """The bundle's manifest (docs/reference/bundle.md): architecture, schema, training data, metrics, licence."""
        if self._manifest is None:
            size, owned = c_size_t(0), self._use()
            text = self._library.describe(owned.pointer, byref(size))
            manifest: dict[str, Any] = json.loads(ctypes.string_at(text, size.value).decode())
            self._manifest = manifest
        return self._manifest

    def _made(self, kind: type[Made], function: Callable[..., int], *arguments: Any) -> Made:
        """An object of this kind, from what a call of the library makes of the model."""
        pointer, owned = c_void_p(), self._use()
        self._library.check(function(owned.pointer, *arguments, byref(pointer)))
        made = kind(self._library, pointer.value or 0, getattr(self._library, kind.__name__.lower() + "_close"))
        made.maker = self._maker
        return made

    def workload(self, compute_dag: Union[Text, dict[str, Any]]) -> Workload:
        """Prepares a workload from its compute DAG: JSON text or the dict that foretime.compute_dag makes."""
        text = as_bytes(json.dumps(compute_dag) if isinstance(compute_dag, dict) else compute_dag)
        return self._made(Workload, self._library.workload_open, text, len(text))

    def _prepared(self, compute_dag: Union[Text, dict[str, Any]]) -> Workload:
        """The workload of a DAG; the last DAGs stay prepared."""
        text = as_bytes(json.dumps(compute_dag) if isinstance(compute_dag, dict) else compute_dag)
        with self._lock:
            workload = self._workloads.pop(text, None)
        workload = workload or self.workload(text)
        with self._lock:
            self._workloads[text] = workload
            while len(self._workloads) > KEPT_WORKLOADS:
                self._workloads.popitem(last=False)
        return workload

    def score_records(self, compute_dag: Union[Text, dict[str, Any]], records: Iterable[Text]) -> Floats:
        """Scores [records] of schedules of a DAG given as JSON text; the last DAGs stay prepared."""
        return self._prepared(compute_dag).score(records)

    def score_tir(self, programs: Iterable[Text]) -> Floats:
        """Scores [programs] of save_json texts of a PrimFunc, or of an IRModule with one; +inf where `failure` says why."""
        return self._score_texts(self._library.score_tir, programs)[0]

    def score_tir_and_failures(self, programs: Iterable[Text]) -> tuple[Floats, Floats]:
        """(scores, chances of failure), as Workload.score_and_failures."""
        scores, failures = self._score_texts(self._library.score_tir_and_failures, programs, 2)
        return scores, failures

    def score_programs(self, programs: Iterable[Text], compute_dag: Union[Text, dict[str, Any], None] = None) -> Floats:
        """Scores [programs]: auto_scheduler's records where `compute_dag` is that of their workload, else save_json texts of TIR; +inf
        where `failure` says why."""
        return self.score_tir(programs) if compute_dag is None else self.score_records(compute_dag, programs)

    def score_programs_and_failures(
        self, programs: Iterable[Text], compute_dag: Union[Text, dict[str, Any], None] = None
    ) -> tuple[Floats, Floats]:
        """(scores, chances), both [programs]: of not building or running in time, 0 to 1, NaN without a score. ForetimeError where the
        model does not tell (`predicts_failures`)."""
        if compute_dag is None:
            return self.score_tir_and_failures(programs)
        return self._prepared(compute_dag).score_and_failures(programs)

    def graph(
        self,
        node_features: npt.ArrayLike,
        node_types: npt.ArrayLike,
        edge_index: npt.ArrayLike,
        configurable_nodes: npt.ArrayLike = (),
        collection: Optional[str] = None,
    ) -> Graph:
        """Prepares a graph in the terms of TpuGraphs' .npz files.

        node_features [nodes, features] float32, node_types [nodes] opcodes, edge_index [edges, 2] consumer and producer,
        configurable_nodes [configurable] ascending; collection: one of COLLECTIONS, or None where it is not known.
        """
        features = np.ascontiguousarray(node_features, np.float32)
        if features.ndim != 2:
            raise ValueError(f"node_features: shape {features.shape}, expected (nodes, features)")
        types = exact(node_types, np.uint8, "node_types").reshape(-1)
        if len(types) != len(features):
            raise ValueError(f"node_types: {len(types)}, expected {len(features)}, one for each node")
        edges = exact(edge_index, np.int32, "edge_index")
        if edges.size == 0:
            edges = edges.reshape(0, 2)
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ValueError(f"edge_index: shape {edges.shape}, expected (edges, 2)")
        if collection is not None and collection not in COLLECTIONS:
            raise ValueError(f"collection: {collection!r}, expected one of {', '.join(COLLECTIONS)}, or None")
        consumers, producers = np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])
        configurable = exact(configurable_nodes, np.int32, "configurable_nodes").reshape(-1)
        data = GraphData(
            ctypes.sizeof(GraphData),
            len(features),
            features.shape[1],
            features.ctypes.data,
            types.ctypes.data,
            len(edges),
            consumers.ctypes.data,
            producers.ctypes.data,
            len(configurable),
            configurable.ctypes.data,
            0 if collection is None else 1 + COLLECTIONS.index(collection),
            0,
        )
        return self._made(Graph, self._library.graph_open, byref(data))

    def graph_of(self, group: Group) -> Graph:
        """Prepares the graph of a layout or tile group (foretime.read), for other candidates than its own."""
        return self._made(Graph, self._library.graph_open_group, group._use().pointer)

    def score(self, group: Group) -> Floats:
        """Scores [candidates] of all candidates of a group (foretime.read), as `foretime rank` does."""
        return self._score_group(group, None)

    def score_and_failures(self, group: Group) -> tuple[Floats, Floats]:
        """(scores, chances of failure), both [candidates]. ForetimeError where the model does not tell them (`predicts_failures`)."""
        failures = np.empty(len(group), np.float32)
        return self._score_group(group, failures), failures

    def _score_group(self, group: Group, failures: Optional[Floats]) -> Floats:
        if not isinstance(group, Group):
            raise TypeError(f"group: {type(group).__name__}, expected a Group, as foretime.read gives them")
        scores, owned, read = np.empty(len(group), np.float32), self._use(), group._use()
        self._library.check(
            self._library.score_group(
                owned.pointer, read.pointer, scores.ctypes.data, None if failures is None else failures.ctypes.data
            )
        )
        return scores

    def read(self, *paths: StrPath) -> Files:
        """The groups of files, folders or globs, in the form that this model scores (foretime.read)."""
        return Files(self._library, paths, None, self)

    def hlo(self, module: Text) -> Graph:
        """Prepares the graph of an XLA module: bytes of HloModuleProto, HloProto or ModuleTuningData."""
        return self._made(Graph, self._library.graph_open_hlo, as_bytes(module), len(module))

    def score_layouts(self, graph: Graph, layouts: npt.ArrayLike) -> Floats:
        """Scores [candidates] of layouts [candidates, configurable, 18] of a graph that this model prepared (`graph`, `hlo`)."""
        return self._mine(graph).score_layouts(layouts)

    def score_tiles(self, graph: Graph, tiles: npt.ArrayLike) -> Floats:
        """Scores [candidates] of tile sizes [candidates, 24] of a graph that this model prepared (`graph`, `hlo`)."""
        return self._mine(graph).score_tiles(tiles)

    def _mine(self, graph: Graph) -> Graph:
        if not isinstance(graph, Graph):
            raise TypeError(f"graph: {type(graph).__name__}, expected the Graph that Model.graph or Model.hlo prepared")
        if graph.maker is not self._maker:
            raise ValueError("graph: another model prepared it; prepare it by this one")
        return graph

    def runtimes(self, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Seconds [scores] that scores stand for; ForetimeError where the model does not predict run times."""
        given = np.ascontiguousarray(scores, np.float32)
        seconds = np.empty(len(given), np.float64)
        owned = self._use()
        self._library.check(self._library.runtimes(owned.pointer, given.ctypes.data, len(given), seconds.ctypes.data))
        return seconds

    def rank(self, scores: npt.ArrayLike, top: int = -1) -> npt.NDArray[np.int64]:
        """Places of the `top` lowest scores (all: -1), lowest, so fastest, first."""
        return rank(scores, top, self._library)

    def close(self) -> None:
        """Closes the model; graphs and workloads that were made of it stay usable."""
        with self._lock:
            self._workloads.clear()
        super().close()


def rank(scores: npt.ArrayLike, top: int = -1, library: Optional[Library] = None) -> npt.NDArray[np.int64]:
    """Places of the `top` lowest scores (all: -1), lowest, so fastest, first; equal ones in their order, NaN last."""
    given = np.ascontiguousarray(scores, np.float32)
    if given.ndim != 1:
        raise ValueError(f"scores: shape {given.shape}, expected (candidates,)")
    if top < -1:
        raise ValueError(f"top: {top}, expected a number of places, or -1 for all")
    library = library or load()
    order = np.empty(len(given) if top < 0 else min(top, len(given)), np.int64)
    library.check(library.rank(given.ctypes.data, len(given), top, order.ctypes.data))
    return order


def open(path: Union[StrPath, bytes], threads: int = 1, max_states: int = 0) -> Model:  # noqa: A001
    """Opens a model: a bundle that `foretime export RUN model.foretime` wrote, or its bytes. `threads`: how many one call may use."""
    return Model(path, threads, max_states)


__all__ = ["Graph", "Model", "Workload", "open", "rank", "Floats"]
