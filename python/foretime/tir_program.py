"""Programs of TVM as text that Foretime reads, whichever release of TVM has made them.

A scheduled PrimFunc is walked through the attributes of TVM's Python objects, whose names hardly differ between releases, and
written as the numbered nodes that `tvm.ir.save_json` of TVM 0.8 to 0.14 writes. So libforetime, `foretime rank`,
`data pack-tir` and `finetune` read it like the files that they know. The JSON of TVM itself is not used: it changed in 0.21
and 0.24, names internal fields, and is five to ten times as long, since it has types, names and source places of all nodes.

The text has the loops that run. Variables of a block are replaced by what they are bound to, a block's predicate becomes a
condition, its initial value a store under a condition, its buffers allocations, and pragmas of loops and blocks statements
around them, as TVM's LowerInitBlock and LowerOpaqueBlock do it.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

# Binary operations and other nodes that are written as they are: class → (field, how it is written)
BINARY = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or".split()
EXPRESSIONS: dict[str, tuple[str, ...]] = {
    **{name: ("a", "b") for name in BINARY},
    "Not": ("a",),
    "Cast": ("value",),
    "Select": ("condition", "true_value", "false_value"),
    "Ramp": ("base", "stride"),
    "Broadcast": ("value",),
}
PRAGMA = "pragma_"
REDUCTION = 2  # IterVar.CommReduce


class Unreadable(ValueError):
    """A program that cannot be written; the message says what was found."""


def target_text(target: Any) -> str:
    """The options of a TVM target that Foretime reads, as TVM 0.8 to 0.23 write targets: `llvm -mcpu=znver4 -num-cores=2`."""
    words = [str(target.kind.name)]
    attributes = target.attrs
    for name in ("mcpu", "mattr", "model", "num-cores"):
        if name in attributes:
            value, number = attributes[name], constant(attributes[name])
            several = isinstance(value, Sequence) and not isinstance(value, str)
            text = ",".join(map(str, value)) if several else str(value if number is None else number)
            words.append(f"-{name}={text}")
    return " ".join(words)


class Writer:
    """Writes one PrimFunc as numbered nodes. Numbers of nodes are the values that its methods return."""

    def __init__(self) -> None:
        self._nodes = ['{"type_key":""}']
        self._values: dict[int, int] = {}  # hash of a variable → node of the variable, or of the value that replaces it
        self._buffers: dict[int, int] = {}
        self._constants: dict[str, int] = {}
        self._kept: list[Any] = []  # objects whose hashes are keys above, so that nothing else gets their addresses

    def text(self, function: Any, target: str, version: str) -> str:
        """The text of a PrimFunc. `target`: that of target_text, or "". Raises Unreadable."""
        try:
            root = self._function(function)
        except RecursionError:
            raise Unreadable("a program whose expressions or loops are nested too deep") from None
        attributes = json.dumps({"written_by": "foretime", "tvm": version, **({"target": target} if target else {})})
        return f'{{"root":{root},"nodes":[{",".join(self._nodes)}],"attrs":{attributes}}}'

    # Nodes

    def _add(self, node: str) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _node(self, key: str, **fields: Any) -> int:
        attributes = ",".join(f'"{name}":"{value}"' for name, value in fields.items())
        return self._add(f'{{"type_key":"{key}","attrs":{{{attributes}}}}}')

    def _constant(self, node: str) -> int:
        """A node that is written once."""
        if node not in self._constants:
            self._constants[node] = self._add(node)
        return self._constants[node]

    def _integer(self, value: int) -> int:
        return self._constant(f'{{"type_key":"IntImm","attrs":{{"value":"{value}"}}}}')

    def _list(self, key: str, entries: Iterable[int]) -> int:
        return self._add(f'{{"type_key":"{key}","data":[{",".join(map(str, entries))}]}}')

    # Functions, variables and buffers

    def _function(self, function: Any) -> int:
        parameters, buffers = [], []
        bound = getattr(function, "buffer_map", {}).items()
        buffer_of = {hash(parameter): buffer for parameter, buffer in bound}  # TVM's variables make == an expression
        for parameter in function.params:
            buffer = buffer_of.get(hash(parameter), parameter if is_buffer(parameter) else None)
            if buffer is None:
                parameters.append(self._variable(parameter))
                continue
            parameters.append(self._node("tir.Var"))
            buffers += [parameters[-1], self._buffer(buffer)]
        arguments, shapes = self._list("Array", parameters), self._list("Map", buffers)
        return self._node("tir.PrimFunc", params=arguments, buffer_map=shapes, body=self._statement(function.body))

    def _variable(self, variable: Any) -> int:
        key = hash(variable)
        if key not in self._values:
            self._kept.append(variable)
            self._values[key] = self._node("tir.Var")
        return self._values[key]

    def _bind(self, variable: Any, value: int) -> None:
        """From now on, `value` replaces the variable."""
        self._kept.append(variable)
        self._values[hash(variable)] = value

    def _buffer(self, buffer: Any) -> int:
        key = hash(buffer)
        if key not in self._buffers:
            self._kept.append(buffer)
            shape = self._list("Array", [self._expression(size) for size in buffer.shape])
            self._buffers[key] = self._node("tir.Buffer", data=self._node("tir.Var"), shape=shape)
        return self._buffers[key]

    def _allocation(self, buffer: Any, body: int) -> int:
        extents = self._list("Array", [self._expression(size) for size in buffer.shape])
        return self._node(
            "tir.Allocate", buffer_var=self._node("tir.Var"), extents=extents, condition=self._integer(1), body=body
        )

    # Expressions

    def _expression(self, node: Any) -> int:
        if isinstance(node, (bool, int)):
            return self._integer(int(node))
        if isinstance(node, float):
            return self._constant(f'{{"type_key":"FloatImm","attrs":{{"value":"{node!r}"}}}}')
        name = type(node).__name__
        if name in EXPRESSIONS:
            children = {field: self._expression(getattr(node, field)) for field in EXPRESSIONS[name]}
            return self._node("tir." + name, **children)
        method = getattr(self, "_of_" + name, None)
        if method is None:
            return self._add(f'{{"type_key":{json.dumps(name)}}}')
        number: int = method(node)
        return number

    def _expressions(self, nodes: Iterable[Any]) -> int:
        return self._list("Array", [self._expression(node) for node in nodes])

    def _of_IntImm(self, node: Any) -> int:
        return self._integer(int(node.value))

    def _of_FloatImm(self, node: Any) -> int:
        return self._expression(float(node.value))

    def _of_StringImm(self, _: Any) -> int:
        return self._constant('{"type_key":"tir.StringImm","attrs":{}}')

    def _of_Var(self, node: Any) -> int:
        return self._variable(node)

    _of_SizeVar = _of_Var

    def _of_BufferLoad(self, node: Any) -> int:
        return self._node("tir.BufferLoad", buffer=self._buffer(node.buffer), indices=self._expressions(node.indices))

    def _of_Call(self, node: Any) -> int:
        name = str(getattr(node.op, "name", "")).rpartition(".")[2]
        operator = self._constant(f'{{"type_key":"Op","repr_str":{json.dumps("tir." + name)}}}')
        return self._node("tir.Call", op=operator, args=self._expressions(node.args))

    def _of_Let(self, node: Any) -> int:
        self._bind(node.var, self._expression(node.value))
        return self._expression(node.body)

    def _of_Shuffle(self, node: Any) -> int:
        return self._node(
            "tir.Shuffle", vectors=self._expressions(node.vectors), indices=self._expressions(node.indices)
        )

    # Statements

    def _statement(self, node: Any) -> int:
        return self._sequence([node])

    def _sequence(self, nodes: Sequence[Any]) -> int:
        """Statements one after the other. From 0.24 on, allocations and bindings are statements that hold up to the end."""
        written: list[int] = []
        for place, node in enumerate(nodes):
            name = type(node).__name__
            if name in ("AllocBuffer", "DeclBuffer") and not hasattr(node, "body"):
                rest = self._sequence(nodes[place + 1 :])
                written.append(self._allocation(node.buffer, rest) if name == "AllocBuffer" else rest)
                break
            if name == "Bind":
                self._bind(node.var, self._expression(node.value))
                continue
            method: Optional[Callable[[Any], int]] = getattr(self, "_do_" + name, None)
            written.append(self._add(f'{{"type_key":{json.dumps(name)}}}') if method is None else method(node))
        return written[0] if len(written) == 1 else self._node("tir.SeqStmt", seq=self._list("Array", written))

    def _do_SeqStmt(self, node: Any) -> int:
        return self._sequence(list(node.seq))

    def _do_For(self, node: Any) -> int:
        step = getattr(node, "step", None)
        if step is not None and constant(step) != 1:
            raise Unreadable("a loop with a step, expected one that TVM has made a loop of single steps")
        body = self._statement(node.body)
        loop = self._node(
            "tir.For",
            loop_var=self._variable(node.loop_var),
            kind=int(node.kind),
            min=self._expression(node.min),
            extent=self._expression(node.extent),
            body=body,
        )
        return self._pragmas(node.annotations, loop)

    def _pragmas(self, annotations: Any, body: int) -> int:
        for name, value in annotations.items() if annotations is not None else ():
            number = constant(value)
            if str(name).startswith(PRAGMA) and number is not None:
                body = self._node("tir.AttrStmt", value=self._integer(number), body=body)
        return body

    def _do_BlockRealize(self, node: Any) -> int:
        block = node.block
        values = [self._expression(value) for value in node.iter_values]
        for axis, value in zip(block.iter_vars, values):
            self._bind(axis.var, value)
        body = self._statement(block.body)
        if block.init is not None:
            init = self._initial(block, values, self._statement(block.init))
            body = self._node("tir.SeqStmt", seq=self._list("Array", [init, body]))
        for buffer in block.alloc_buffers:
            body = self._allocation(buffer, body)
        body = self._pragmas(block.annotations, body)
        if constant(node.predicate) is None:
            body = self._condition(self._expression(node.predicate), body)
        return body

    _do_SBlockRealize = _do_BlockRealize

    def _initial(self, block: Any, values: Sequence[int], store: int) -> int:
        """A store of the initial value, where all axes that reduce are at their beginning."""
        for axis, value in zip(block.iter_vars, values):
            if int(axis.iter_type) == REDUCTION:
                first = self._expression(axis.dom.min)
                store = self._condition(self._node("tir.EQ", a=value, b=first), store)
        return store

    def _condition(self, condition: int, then: int, otherwise: int = 0) -> int:
        return self._node("tir.IfThenElse", condition=condition, then_case=then, else_case=otherwise)

    def _do_IfThenElse(self, node: Any) -> int:
        otherwise = 0 if node.else_case is None else self._statement(node.else_case)
        return self._condition(self._expression(node.condition), self._statement(node.then_case), otherwise)

    def _do_While(self, node: Any) -> int:
        return self._node("tir.While", condition=self._expression(node.condition), body=self._statement(node.body))

    def _do_BufferStore(self, node: Any) -> int:
        return self._node(
            "tir.BufferStore",
            buffer=self._buffer(node.buffer),
            indices=self._expressions(node.indices),
            value=self._expression(node.value),
        )

    def _do_Evaluate(self, node: Any) -> int:
        return self._node("tir.Evaluate", value=self._expression(node.value))

    def _do_AttrStmt(self, node: Any) -> int:
        number = constant(node.value)
        body = self._statement(node.body)
        if not str(node.attr_key).startswith(PRAGMA) or number is None:
            return body
        return self._node("tir.AttrStmt", value=self._integer(number), body=body)

    def _do_LetStmt(self, node: Any) -> int:
        self._bind(node.var, self._expression(node.value))
        return self._statement(node.body)

    def _do_Allocate(self, node: Any) -> int:
        body = self._statement(node.body)
        return self._node(
            "tir.Allocate",
            buffer_var=self._node("tir.Var"),
            extents=self._expressions(node.extents),
            condition=self._integer(1),
            body=body,
        )

    def _body(self, node: Any) -> int:
        return self._statement(node.body)

    _do_AssertStmt = _do_DeclBuffer = _do_AllocateConst = _body


def is_buffer(variable: Any) -> bool:
    """Whether a parameter is a buffer itself, as from TVM 0.27 on, where a buffer is a variable of type BufferType."""
    return type(getattr(variable, "ty", None)).__name__ == "BufferType"


def constant(value: Any) -> Optional[int]:
    """A whole number of Python or of TVM; None for others."""
    if isinstance(value, (bool, int)):
        return int(value)
    return int(value.value) if type(value).__name__ == "IntImm" else None


def program_text(function: Any, target: str = "", version: str = "") -> str:
    """The text of a PrimFunc; `target`: that of target_text. Raises Unreadable, which says what was found."""
    return Writer().text(function, target, version)
