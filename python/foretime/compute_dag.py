"""The JSON of a compute DAG: all that Foretime needs of TVM to replay the schedules of a task. Needs TVM 0.8 to 0.19."""
from __future__ import annotations

import sys
from typing import Any, Optional

from tvm import te, tir

COMBINERS = {"Add": "sum", "Max": "max", "Min": "min"}
ACCURATE_BITS = 53


def text(expression: Any) -> str:
    """The expression as TVM printed it before 0.11: what later versions call the legacy form."""
    printed: str = expression.legacy_repr() if hasattr(expression, "legacy_repr") else str(expression)
    if "(OMITTED)" in printed:
        raise ValueError(f"TVM leaves out the middle of a long expression: {printed[:60]}…")
    return printed


def integer(value: Any) -> Any:
    """A constant as an int, anything else as text."""
    return int(value) if isinstance(value, (int, tir.IntImm)) else text(value)


def reads_of(body: Any, numbers: Any) -> list[dict[str, Any]]:
    """The accesses to other stages, in the order of the body. The bodies of a reduction's tensors all have all its sources."""
    reads = []

    def visit(node: Any) -> None:
        if not isinstance(node, tir.ProducerLoad):
            return
        op = node.producer.op
        read = {"op": numbers[op], "name": op.name, "indices": [text(index) for index in node.indices]}
        if node.producer.value_index > 0:
            read["output"] = node.producer.value_index
        reads.append(read)

    for expression in body[:1] if isinstance(body[0], tir.Reduce) else body:
        tir.stmt_functor.post_order_visit(tir.Evaluate(expression), visit)
    return reads


def combiner_and_body(op: Any) -> tuple[Optional[str], str, Optional[dict[str, Any]]]:
    """(name of the combiner or None, text of what is combined or computed, what becomes of several tensors or None)."""
    body = op.body[0]
    if not isinstance(body, tir.Reduce):
        return None, ", ".join(text(part) for part in op.body), None
    sources = ", ".join(text(source) for source in body.source)
    combiner = body.combiner
    if len(combiner.result) > 1:
        return (
            "tuple",
            sources,
            {
                "lhs": [variable.name for variable in combiner.lhs],
                "rhs": [variable.name for variable in combiner.rhs],
                "result": [text(result) for result in combiner.result],
            },
        )
    name = type(combiner.result[0]).__name__
    return COMBINERS.get(name, name.lower()), sources, None


def stage(number: int, op: Any, numbers: Any, read_by: Any) -> dict[str, Any]:
    """One stage as a dict."""
    out = {
        "id": number,
        "name": op.name,
        "dtype": str(op.output(0).dtype),
        "shape": [int(extent) for extent in op.output(0).shape],
    }
    if isinstance(op, te.PlaceholderOp):
        out["kind"] = "placeholder"  # TVM's word
        return out
    if not isinstance(op, te.ComputeOp):
        raise ValueError(f"stage {number} ({op.name}): {type(op).__name__}, expected a computation")
    combiner, body, combine = combiner_and_body(op)
    if op.num_outputs > 1:
        out["dtypes"] = [str(op.output(i).dtype) for i in range(op.num_outputs)]
    if combine:
        out["combine"] = combine
    out.update(
        {
            "kind": "compute",
            "axes": [[axis.var.name, integer(axis.dom.extent)] for axis in op.axis],
            "reduce_axes": [[axis.var.name, integer(axis.dom.extent)] for axis in op.reduce_axis],
            "combiner": combiner,
            "body": body,
            "tag": op.tag,
            "reads": reads_of(op.body, numbers),
            "is_output": op not in read_by,
        }
    )
    return out


def compute_dag(dag: Any, workload_key: str) -> dict[str, Any]:
    """One DAG as a dict, for one line of JSON; stages have the numbers that records use."""
    ops = list(dag.ops)
    numbers = {op: number for number, op in enumerate(ops)}
    read_by: set[Any] = set()
    for op in ops:
        read_by.update(tensor.op for tensor in op.input_tensors)
    flops = float(dag.flop_ct)
    if flops >= 2**ACCURATE_BITS:
        print(f"compute DAG: {workload_key}: {flops:g} operations are not exact in a float", file=sys.stderr)
    return {
        "workload_key": workload_key,
        "flop_ct": flops,
        "stages": [stage(number, op, numbers, read_by) for number, op in enumerate(ops)],
        "printed": str(dag),
    }
