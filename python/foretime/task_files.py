"""TVM's pickled auto_scheduler tasks, as TenSet's all_tasks.pkl and *.task.pkl hold them, read without TVM and without running them.

  python3 -m foretime.task_files all_tasks.pkl -o dags.jsonl.gz     the compute DAGs, for `--dags` of the program's commands

A pickle says which functions are called to make its objects, and may name any. Here only the classes of TVM that task files hold are known,
and what stands for them keeps their content; a file that names another is refused, and nothing is imported. A task's tensors lie in
it as JSON (tvm.ir.save_json), of which the compute DAG is made: stages in TVM's order, expressions as TVM prints them. Known from the
sources of TVM 0.8 to 0.14; the number of operations is not in the file, and counted by whoever reads the DAG.
"""
from __future__ import annotations

import argparse
import functools
import gzip
import heapq
import json
import os
import pickle
import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Union

from .outputs import expect_replaceable

StrPath = Union[str, "os.PathLike[str]"]
LONGEST_TEXT = 1 << 20  # characters of an expression; more is no program that somebody wrote


class Kept:
    """In the place of an object of TVM: its state as it was written."""

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class KeptText(str):
    """tvm.runtime.String."""

    def __setstate__(self, state: Any) -> None:
        pass


def _new(kind: Any) -> Any:
    """tvm.runtime.object._new_object"""
    if not (isinstance(kind, type) and issubclass(kind, Kept)):
        raise pickle.UnpicklingError(f"makes an object of {kind!r:.80}")
    return kind()


class KeptTask(Kept):
    """tvm.auto_scheduler.SearchTask"""


KNOWN: dict[str, Any] = {
    "tvm.runtime.object._new_object": _new,
    "tvm.runtime.object.Object": Kept,
    "tvm.runtime.container.String": KeptText,
    "tvm.auto_scheduler.search_task.SearchTask": KeptTask,
    "tvm.auto_scheduler.compute_dag.ComputeDAG": Kept,
    "tvm.auto_scheduler.search_task.HardwareParams": Kept,
    "tvm.auto_scheduler.auto_schedule.HardwareParams": Kept,
    "tvm.auto_scheduler.auto_schedule.SearchTask": KeptTask,
    "tvm.target.target.Target": Kept,
    "tvm.ir.container.Array": Kept,
    "tvm.ir.container.Map": Kept,
    "tvm.tir.expr.IntImm": Kept,
    "tvm.tir.expr.FloatImm": Kept,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = KNOWN.get(f"{module}.{name}")
        if known is None:
            raise pickle.UnpicklingError(
                f"names {module}.{name}, which no file of TVM's tasks does; nothing of it was run"
            )
        return known


class Graph:
    """The nodes of save_json."""

    def __init__(self, text: str) -> None:
        graph = json.loads(text)
        self._nodes, self.root = graph["nodes"], int(graph["root"])

    def kind(self, node: int) -> str:
        kind: str = self._nodes[node]["type_key"].rpartition(".")[2]
        return kind

    def value(self, node: int, name: str) -> str:
        value: str = self._nodes[node]["attrs"][name]
        return value

    def child(self, node: int, name: str) -> int:
        return int(self.value(node, name))

    def items(self, node: int) -> list[int]:
        """Of an array; none of a null one."""
        return [int(item) for item in self._nodes[node].get("data", [])]

    def children(self, node: int, name: str) -> list[int]:
        return self.items(self.child(node, name))

    def text(self, node: int) -> str:
        """Of a string, or the name of an operator."""
        text: str = self._nodes[node]["repr_str"]
        return text


INFIX = {
    "Add": " + ",
    "Sub": " - ",
    "Mul": "*",
    "Div": "/",
    "Mod": " % ",
    "EQ": " == ",
    "NE": " != ",
    "LT": " < ",
    "LE": " <= ",
    "GT": " > ",
    "GE": " >= ",
    "And": " && ",
    "Or": " || ",
}
PREFIX = {"FloorDiv": "floordiv", "FloorMod": "floormod", "Min": "min", "Max": "max"}
COMBINERS = {"Add": "sum", "Max": "max", "Min": "min"}


class Expressions:
    """Texts and accesses of the expressions in a graph, as TVM has them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._texts: dict[int, str] = {}

    def text(self, node: int) -> str:
        found = self._texts.get(node)
        if found is None:
            found = self._texts[node] = self._print(node)
            if len(found) > LONGEST_TEXT:
                raise ValueError(f"an expression of more than {LONGEST_TEXT} characters")
        return found

    def listed(self, nodes: list[int]) -> str:
        return ", ".join(map(self.text, nodes))

    def _print(self, node: int) -> str:
        graph, kind = self._graph, self._graph.kind(node)
        if kind in INFIX:
            return f"({self.text(graph.child(node, 'a'))}{INFIX[kind]}{self.text(graph.child(node, 'b'))})"
        if kind in PREFIX:
            return f"{PREFIX[kind]}({self.listed([graph.child(node, 'a'), graph.child(node, 'b')])})"
        if kind in ("Var", "SizeVar"):
            name = graph.text(graph.child(node, "name"))
            return name if kind == "Var" else f"{{{name}|{name}>=0}}"
        if kind == "IntImm":
            kind_of_number = graph.value(node, "dtype")
            return ("" if kind_of_number == "int32" else f"({kind_of_number})") + str(int(graph.value(node, "value")))
        if kind == "FloatImm":
            return (
                f"{float(graph.value(node, 'value')):g}"
                + {"float64": "", "float32": "f", "float16": "h"}[graph.value(node, "dtype")]
            )
        if kind == "StringImm":
            return json.dumps(graph.text(graph.child(node, "value")))
        if kind == "Cast":
            return f"{graph.value(node, 'dtype')}({self.text(graph.child(node, 'value'))})"
        if kind == "Not":
            return "!" + self.text(graph.child(node, "a"))
        if kind == "Select":
            return f"select({self.listed([graph.child(node, name) for name in ('condition', 'true_value', 'false_value')])})"
        if kind == "Call":
            return f"{graph.text(graph.child(node, 'op'))}({self.listed(graph.children(node, 'args'))})"
        if kind == "ProducerLoad":
            return f"{self.tensor_name(graph.child(node, 'producer'))}[{self.listed(graph.children(node, 'indices'))}]"
        raise ValueError(f"an expression of kind {kind}, which no reader of compute DAGs knows")

    def tensor_name(self, tensor: int) -> str:
        graph, op = self._graph, self._graph.child(tensor, "op")
        name, several = graph.value(op, "name"), graph.kind(op) == "ComputeOp" and len(graph.children(op, "body")) > 1
        return f"{name}.v{graph.value(tensor, 'value_index')}" if several else name

    def _parts(self, node: int) -> list[int]:
        """In the order in which TVM visits them."""
        graph, kind = self._graph, self._graph.kind(node)
        if kind in INFIX or kind in PREFIX:
            return [graph.child(node, "a"), graph.child(node, "b")]
        if kind in ("Cast", "Not"):
            return [graph.child(node, "value" if kind == "Cast" else "a")]
        if kind == "Select":
            return [graph.child(node, name) for name in ("condition", "true_value", "false_value")]
        if kind in ("Call", "ProducerLoad"):
            return graph.children(node, "args" if kind == "Call" else "indices")
        if kind == "Reduce":
            domains = [graph.child(axis, "dom") for axis in graph.children(node, "axis")]
            bounds = [graph.child(domain, name) for domain in domains for name in ("min", "extent")]
            return [
                *bounds,
                *graph.children(node, "source"),
                *graph.children(node, "init"),
                graph.child(node, "condition"),
            ]
        return []

    def loads(self, root: int) -> Iterator[int]:
        """The loads in an expression, each once, what is inside of one before it."""
        seen, stack = set(), [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                if self._graph.kind(node) == "ProducerLoad":
                    yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((part, False) for part in reversed(self._parts(node)))


class Stages:
    """The operations behind some tensors, in the order of TVM's ComputeDAG, by whose numbers records name them."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._expressions = graph, Expressions(graph)
        tensors = graph.items(graph.root)
        if not tensors or any(graph.kind(tensor) != "Tensor" for tensor in tensors):
            raise ValueError("expected an array of tensors")
        self._order = self._sorted([graph.child(tensor, "op") for tensor in tensors])
        self._numbers = {op: number for number, op in enumerate(self._order)}

    def _inputs(self, op: int) -> list[int]:
        """The operations that it reads, one for each tensor."""
        graph = self._graph
        found: dict[tuple[int, str], None] = {}
        if graph.kind(op) == "ComputeOp":
            for body in graph.children(op, "body"):
                for load in self._expressions.loads(body):
                    tensor = graph.child(load, "producer")
                    found[graph.child(tensor, "op"), graph.value(tensor, "value_index")] = None
        return [read for read, _ in found]

    def _sorted(self, outputs: list[int]) -> list[int]:
        """Of those that wait for nothing, the one that was found last comes first."""
        found: dict[int, int] = {}  # when
        inputs: dict[int, list[int]] = {}
        readers: dict[int, list[int]] = {}
        stack = list(outputs)
        while stack:
            op = stack.pop()
            if op in found:
                continue
            if self._graph.kind(op) not in ("ComputeOp", "Place" "holderOp"):
                raise ValueError(f"an operation of kind {self._graph.kind(op)}, expected computations")
            found[op] = len(found)
            inputs[op] = self._inputs(op)
            for read in inputs[op]:
                readers.setdefault(read, []).append(op)
                stack.append(read)
        missing = {op: len(of) for op, of in inputs.items()}
        ready = [(-found[op], op) for op, count in missing.items() if count == 0]
        heapq.heapify(ready)
        order = []
        while ready:
            op = heapq.heappop(ready)[1]
            order.append(op)
            for reader in readers.get(op, []):
                missing[reader] -= 1
                if missing[reader] == 0:
                    heapq.heappush(ready, (-found[reader], reader))
        if len(order) < len(found):
            raise ValueError("operations that read each other")
        return order

    def all(self) -> list[dict[str, Any]]:
        read = {self._numbers[op] for reader in self._order for op in self._inputs(reader)}
        return [self._stage(number, op, number not in read) for number, op in enumerate(self._order)]

    def _extent(self, node: int) -> Union[int, str]:
        return (
            int(self._graph.value(node, "value"))
            if self._graph.kind(node) == "IntImm"
            else self._expressions.text(node)
        )

    def _axes(self, axes: list[int]) -> list[list[Union[int, str]]]:
        graph = self._graph
        return [
            [
                self._expressions.text(graph.child(axis, "var")),
                self._extent(graph.child(graph.child(axis, "dom"), "extent")),
            ]
            for axis in axes
        ]

    def _stage(self, number: int, op: int, is_output: bool) -> dict[str, Any]:
        graph = self._graph
        out: dict[str, Any] = {"id": number, "name": graph.value(op, "name")}
        if graph.kind(op) != "ComputeOp":
            return {
                **out,
                "dtype": graph.value(op, "dtype"),
                "shape": [self._extent(extent) for extent in graph.children(op, "shape")],
                "kind": "placeholder",  # TVM's word
            }
        body, axes = graph.children(op, "body"), self._axes(graph.children(op, "axis"))
        out.update(dtype=graph.value(body[0], "dtype"), shape=[extent for _, extent in axes])
        combiner, text, combine = self._combiner(body)
        if len(body) > 1:
            out["dtypes"] = [graph.value(part, "dtype") for part in body]
        if combine:
            out["combine"] = combine
        return {
            **out,
            "kind": "compute",
            "axes": axes,
            "reduce_axes": self._axes(graph.children(op, "reduce_axis")),
            "combiner": combiner,
            "body": text,
            "tag": graph.value(op, "tag"),
            "reads": self._reads(body),
            "is_output": is_output,
        }

    def _combiner(self, body: list[int]) -> tuple[Optional[str], str, Optional[dict[str, list[str]]]]:
        graph, expressions = self._graph, self._expressions
        if graph.kind(body[0]) != "Reduce":
            return None, expressions.listed(body), None
        sources, combiner = expressions.listed(graph.children(body[0], "source")), graph.child(body[0], "combiner")
        results = graph.children(combiner, "result")
        if len(results) > 1:
            return (
                "tuple",
                sources,
                {
                    name: [expressions.text(node) for node in graph.children(combiner, name)]
                    for name in ("lhs", "rhs", "result")
                },
            )
        name = graph.kind(results[0])
        return COMBINERS.get(name, name.lower()), sources, None

    def _reads(self, body: list[int]) -> list[dict[str, Any]]:
        graph = self._graph
        reads: list[dict[str, Any]] = []
        for root in body[:1] if graph.kind(body[0]) == "Reduce" else body:
            for load in self._expressions.loads(root):
                tensor = graph.child(load, "producer")
                op = graph.child(tensor, "op")
                read: dict[str, Any] = {
                    "op": self._numbers[op],
                    "name": graph.value(op, "name"),
                    "indices": [self._expressions.text(index) for index in graph.children(load, "indices")],
                }
                if int(graph.value(tensor, "value_index")) > 0:
                    read["output"] = int(graph.value(tensor, "value_index"))
                reads.append(read)
        return reads


@dataclass(frozen=True)
class Task:
    """A task of a file; `weight`: how often its network needs it, where the file says so."""

    workload_key: str
    stages: list[dict[str, Any]]
    description: str
    weight: Optional[int] = None

    def line(self) -> str:
        """Its compute DAG, a line of a file for --dags."""
        return json.dumps({"workload_key": self.workload_key, "stages": self.stages}, ensure_ascii=False)


def _attempt(what: str, action: Callable[[], Any]) -> Any:
    """What is wrong with a file, however it shows, is a ValueError that names the place."""
    try:
        return action()
    except (
        pickle.UnpicklingError,
        AttributeError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
        OverflowError,
        MemoryError,
    ) as error:
        reason = str(error) if isinstance(error, (pickle.UnpicklingError, ValueError)) else repr(error)
        raise ValueError(f"{what}: {reason:.300}") from error


def _task(kept: Any, weight: Optional[int]) -> Task:
    if not isinstance(kept, KeptTask):
        raise ValueError(f"found {type(kept).__name__}, expected a SearchTask")
    state = kept.state
    tensors = state["compute_dag"].state["tensors"]
    if not isinstance(tensors, str):
        raise ValueError("its tensors are no text of save_json")
    return Task(str(state["workload_key"]), Stages(Graph(tensors)).all(), str(state.get("desc") or ""), weight)


def read_task_file(path: StrPath) -> list[Task]:
    """The tasks of a pickled list of SearchTask, or of a pair of such a list and of their weights. ValueError names the file and what is
    wrong with it: no pickle, other classes than those of TVM's tasks, or a task that is no compute DAG."""
    where = os.fspath(path)
    with open(path, "rb") as file:
        content = _attempt(where, lambda: _Reader(file).load())
    weights: Any = None
    if isinstance(content, tuple) and len(content) == 2:
        content, weights = content
    if not isinstance(content, list) or not (
        weights is None or (isinstance(weights, list) and len(weights) == len(content))
    ):
        raise ValueError(f"{where}: expected a list of tasks, or a pair of one and of as many weights")
    tasks = []
    for number, kept in enumerate(content):
        weight = weights[number] if weights is not None and isinstance(weights[number], int) else None
        tasks.append(_attempt(f"{where}: task {number}", functools.partial(_task, kept, weight)))
    return tasks


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m foretime.task_files", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("files", nargs="+", metavar="FILE.pkl")
    parser.add_argument("-o", "--output", required=True, help="compute DAGs to write, gzip where the name ends in .gz")
    parser.add_argument("--force", action="store_true", help="replace the file of --output if it exists")
    options = parser.parse_args(arguments)
    try:
        expect_replaceable(options.output, options.files, force=options.force)
    except FileExistsError as error:
        print(f"foretime.task_files: {error} (--force)", file=sys.stderr)
        return 2
    lines: dict[str, str] = {}
    try:
        for path in options.files:
            for task in read_task_file(path):
                lines.setdefault(task.workload_key, task.line())
    except (OSError, ValueError) as error:
        print(f"foretime.task_files: {error}", file=sys.stderr)
        return 3
    unfinished = f"{options.output}.{os.getpid()}-0.foretime-tmp"
    text = "".join(line + "\n" for line in lines.values()).encode()
    with open(unfinished, "xb") as out:
        out.write(gzip.compress(text) if options.output.endswith(".gz") else text)
    os.replace(unfinished, options.output)
    print(f"{options.output}: {len(lines)} compute DAGs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
