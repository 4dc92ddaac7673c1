#!/usr/bin/env python3
"""Runs a bundle with NumPy alone: the reference for whoever writes a runtime, and a check of the others.

  tools/data/check_bundle.py MODEL.foretime                      prints what the bundle says of itself
  tools/data/check_bundle.py MODEL.foretime INPUTS.npz [--torchscript MODEL.pt] [--tolerance 1e-5]

INPUTS.npz holds the arrays that the model reads of one group, and libforetime's scores of it. A build with tests writes it:
  build/release/tests/inference/plan_arrays MODEL.foretime FILE INPUTS.npz
The scores are computed again from the list of operations in the bundle, and with --torchscript by `torch.jit.load` too;
so are chances of failure, where the model tells them. Exit code 1 where they differ by more than the tolerance,
relative to the largest score (at least 1).
"""

import argparse
import json
import struct
import sys

import numpy as np

TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def read_tensors(path):
    """(metadata, {name: array}) of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], TYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return metadata, tensors


def read_bundle(path):
    """(manifest, {name: array}): a safetensors file whose metadata hold the manifest."""
    metadata, weights = read_tensors(path)
    if metadata.get("format") != "foretime-bundle":
        raise SystemExit(f"{path}: a safetensors file, but no bundle of Foretime")
    return json.loads(metadata["manifest"]), weights


def leaky(x, slope):
    return np.where(x < 0, x * np.float32(slope), x)


class Run:
    """One pass through the two lists of a graph. `plan`: the arrays of INPUTS.npz."""

    def __init__(self, graph, weights, plan):
        self.graph, self.weights, self.plan = graph, weights, dict(plan)
        self.group_ptr = plan["group_ptr"]

    def scores(self):
        values = {
            name: self.plan[name]
            for name in ("node_features", "layout_rows", "candidate_features")
            if name in self.plan
        }
        self.run(self.graph["embed"], values)
        values = {"embedded": values[self.graph["embedded"]]}
        self.run(self.graph["score"], values)
        result = values[self.graph["scores"]]
        return {
            "scores": result[:, 0],
            **({"failures": 1 / (1 + np.exp(-result[:, 1]))} if result.shape[1] == 2 else {}),
        }

    def run(self, nodes, values):
        self.values = values
        for o in nodes:
            values[o["result"]] = np.asarray(getattr(self, o["op"])(o), dtype=np.float32)

    def value(self, o, name="x"):
        return self.values[o[name]]

    def inputs(self, o):
        return [self.values[name] for name in o["inputs"]]

    def weight(self, o, name):
        return self.weights[o[name]] if o.get(name) else None

    @staticmethod
    def finished(o, y, bias):
        return leaky(y if bias is None else y + bias, o.get("slope", 1.0))

    # Sparse matrices, by rows.

    def rows_of(self, name):
        row_ptr = self.plan[name + ".row_ptr"]
        return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))

    def product(self, name, x):
        result = np.zeros((len(self.plan[name + ".row_ptr"]) - 1, x.shape[1]), np.float64)
        messages = x[self.plan[name + ".columns"]] * self.plan[name + ".values"][:, None]
        np.add.at(result, self.rows_of(name), messages)
        return result.astype(np.float32)

    def maxima(self, name, x):
        result = np.full((len(self.plan[name + ".row_ptr"]) - 1, x.shape[1]), -np.inf, np.float32)
        np.maximum.at(result, self.rows_of(name), x[self.plan[name + ".columns"]])
        return np.where(np.diff(self.plan[name + ".row_ptr"])[:, None] > 0, result, 0)

    def stages(self, name):
        if name + ".row_ptr" in self.plan:
            return [name]
        stages = []
        while f"{name}.{len(stages)}.row_ptr" in self.plan:
            stages.append(f"{name}.{len(stages)}")
        return stages

    # The operations, as inference/ops describes them.

    def select(self, o):
        return self.value(o)[:, o["chosen"]]

    def transform(self, o):
        x, start = self.value(o), o.get("start", 0)
        if o.get("log", False):
            x = np.sign(x) * np.log1p(np.abs(x))
        columns = slice(start, start + x.shape[1])
        x = (x - self.weight(o, "offset")[columns]) * self.weight(o, "scale")[columns]
        clip = o.get("clip", 0)
        return np.clip(x, -clip, clip) if clip > 0 else x

    def layout_codes(self, o):
        x, count = self.value(o), o.get("values", 1)
        code = np.clip(x - o.get("least", 0), 0, count - 1).astype(np.int64)
        vectors = self.weight(o, "table")[code + count * np.arange(x.shape[1])]
        vectors[0] = 0
        return vectors.reshape(len(x), -1)

    def lookup(self, o):
        return self.weight(o, "table")[self.plan[o["matrix"] + ".columns"]]

    def dense(self, o):
        x, start = self.value(o), o.get("start", 0)
        return self.finished(o, x @ self.weight(o, "weight")[:, start : start + x.shape[1]].T, self.weight(o, "bias"))

    def join(self, o):
        return np.concatenate(self.inputs(o), 1)

    def add(self, o):
        inputs = self.inputs(o)
        factors = o.get("factors", []) + [1.0] * len(inputs)
        y = sum(np.float32(factor) * x for factor, x in zip(factors, inputs))
        bias = self.weight(o, "bias")
        return (y if bias is None else y + bias) + np.float32(o.get("constant", 0.0))

    def average(self, o):
        return np.mean(self.inputs(o), 0)

    def multiply(self, o):
        return self.value(o) * self.value(o, "z")

    def scale(self, o):
        return self.value(o) * (np.float32(o.get("offset", 0.0)) + self.weight(o, "factors"))

    def activate(self, o):
        x, mode, number = self.value(o), o.get("mode", "leaky"), o.get("number", 0.0)
        if mode == "leaky":
            return leaky(x, number)
        return 1 / np.sqrt(x + number) if mode == "rsqrt" else getattr(np, mode)(x)

    def layer_norm(self, o):
        x = self.value(o)
        centered = x - x.mean(1, keepdims=True)
        x = centered / np.sqrt((centered**2).mean(1, keepdims=True) + o.get("epsilon", 1e-5))
        return x * self.weight(o, "weight") + self.weight(o, "bias")

    def batch_norm(self, o):
        x = (self.value(o) - self.weight(o, "mean")) / np.sqrt(self.weight(o, "variance") + o.get("epsilon", 1e-5))
        return x * self.weight(o, "weight") + self.weight(o, "bias")

    def l2_normalize(self, o):
        x = self.value(o)
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), o.get("epsilon", 1e-12))

    def by_group(self, x, function):
        return np.concatenate(
            [function(x[first:last].astype(np.float64)) for first, last in zip(self.group_ptr, self.group_ptr[1:])]
        )

    def standardize(self, o):
        def standardized(x):
            centered = x - x.mean(0)
            return centered / np.sqrt((centered**2).mean(0) + o.get("epsilon", 1e-5))

        return self.by_group(self.value(o), standardized)

    def candidate_softmax(self, o):
        def attended(x):
            logits = x * np.exp(-self.weight(o, "log_temperature"))
            weights = np.exp(logits - logits.max(0))
            return np.concatenate([x, x * weights / weights.sum(0) * len(x)], 1)

        return self.by_group(self.value(o), attended)

    def csr_sum(self, o):
        y = sum(self.product(name, x) if name else x for name, x in zip(o["matrices"], self.inputs(o)))
        return self.finished(o, y, self.weight(o, "bias"))

    def csr_dense(self, o):
        x = self.value(o)
        y = sum(self.product(name, x @ self.weights[weight].T) for name, weight in zip(o["matrices"], o["weights"]))
        return self.finished(o, y, self.weight(o, "bias"))

    def csr_max(self, o):
        return self.maxima(o["matrix"], self.value(o))

    def head_dot(self, o):
        weight = self.weight(o, "weight")
        return (self.value(o).reshape(-1, *weight.shape) * weight).sum(2)

    def attended(self, name, logits, z):
        rows, heads = self.rows_of(name), logits.shape[1]
        count = len(self.plan[name + ".row_ptr"]) - 1
        largest = np.full((count, heads), -np.inf)
        np.maximum.at(largest, rows, logits)
        weights = np.exp(logits - largest[rows]) * self.plan[name + ".values"][:, None]
        sums = np.zeros((count, heads))
        np.add.at(sums, rows, weights)
        weights = weights / np.where(sums == 0, 1, sums)[rows]
        result = np.zeros((count, z.shape[1]))
        messages = z[self.plan[name + ".columns"]].reshape(len(rows), heads, -1) * weights[:, :, None]
        np.add.at(result, rows, messages.reshape(len(rows), -1))
        return result

    def additive_attention(self, o):
        rows, columns = self.rows_of(o["matrix"]), self.plan[o["matrix"] + ".columns"]
        logits = leaky(self.value(o, "target")[rows] + self.value(o, "source")[columns], o.get("slope", 1.0))
        return self.attended(o["matrix"], logits, self.value(o))

    def dot_attention(self, o):
        rows, columns = self.rows_of(o["matrix"]), self.plan[o["matrix"] + ".columns"]
        products = self.value(o, "query")[rows] * self.value(o, "key")[columns]
        logits = products.reshape(len(rows), o.get("heads", 1), -1).sum(2) * o.get("scale", 1.0)
        return self.attended(o["matrix"], logits, self.value(o, "value"))

    def pool(self, o):
        x = self.value(o)
        for stage in self.stages(o["matrix"]):
            x = (self.maxima if o.get("mode", "sum") == "max" else self.product)(stage, x)
        return x

    def pool_mean(self, o):
        counts = None
        for stage in self.stages(o["matrix"]):
            if counts is None:
                row_ptr = self.plan[stage + ".row_ptr"]
                counts = np.zeros((len(row_ptr) - 1, 1), np.float32)
                np.add.at(counts[:, 0], self.rows_of(stage), self.plan[stage + ".values"])
            else:
                counts = self.product(stage, counts)
        return self.value(o, "sums") / np.maximum(counts, 1)

    def top_nodes(self, o):
        x, v, adjacency, nodes = self.value(o), self.weight(o, "weight"), o["adjacency"], o["nodes"]
        score = (x @ v / max(np.linalg.norm(v), 1e-12)).astype(np.float64)
        ratio, tie = o.get("ratio", 1.0), o.get("tie", 0.0)
        kept, kept_ptr = [], [0]
        for first, last in zip(self.plan[nodes + ".row_ptr"], self.plan[nodes + ".row_ptr"][1:]):
            own, count = score[first:last], last - first
            keep = min(count, max(1, int(np.ceil(count * ratio * (1 - 1e-9)))))
            order = np.argsort(-own, kind="stable")
            if keep < count:
                ranked = own[order]
                near = tie * max(abs(ranked[0]), abs(ranked[-1]))
                begin = end = keep
                while begin > 0 and not ranked[begin - 1] - ranked[begin] > near:
                    begin -= 1
                while begin < keep and end < count and not ranked[end - 1] - ranked[end] > near:
                    end += 1
                order = np.concatenate([order[:begin], np.sort(order[begin:end]), order[end:]])
            kept.extend(first + np.sort(order[:keep]))
            kept_ptr.append(len(kept))
        kept = np.array(kept, np.int64)
        place = np.full(len(x), -1)
        place[kept] = np.arange(len(kept))
        rows, columns = place[self.rows_of(adjacency)], place[self.plan[adjacency + ".columns"]]
        stay = (rows >= 0) & (columns >= 0)
        rows, columns, values = rows[stay], columns[stay], self.plan[adjacency + ".values"][stay]
        root = 1 / np.sqrt(np.bincount(rows, values, len(kept)))
        row_ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(kept)))])
        ones = np.ones(len(kept), np.float32)
        for what, matrix in {
            "adjacency": (row_ptr, columns, values),
            "normalized_adjacency": (row_ptr, columns, values * root[rows] * root[columns]),
            "kept_nodes": (np.array(kept_ptr), np.arange(len(kept)), ones),
        }.items():
            for part, array in zip(("row_ptr", "columns", "values"), matrix):
                self.plan[f"{o['result']}.{what}.{part}"] = array
        return x[kept] * np.tanh(score[kept])[:, None]


def torchscript_scores(path, plan):
    import torch  # only where it is asked for

    module = torch.jit.load(path)
    with torch.no_grad():
        result = module({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in plan.items()}).numpy()
    return dict(zip(("scores", "failures"), result.T)) if result.ndim == 2 else {"scores": result}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("inputs", nargs="?")
    parser.add_argument("--torchscript")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args(arguments)
    manifest, weights = read_bundle(options.bundle)
    if not options.inputs:
        graph = manifest.pop("graph")
        print(json.dumps(manifest, indent=2))
        print(
            f"{len(weights)} tensors, {sum(array.size for array in weights.values())} numbers; operations:",
            " ".join(o["op"] for o in graph["embed"] + graph["score"]),
        )
        return 0
    with np.load(options.inputs) as file:
        plan = dict(file)
    expected = {name: plan.pop(name) for name in ("scores", "failures") if name in plan}
    runtimes = {"NumPy": Run(manifest["graph"], weights, plan).scores()}
    if options.torchscript:
        runtimes["TorchScript"] = torchscript_scores(options.torchscript, plan)
    code = 0
    for name, found in runtimes.items():
        if found.keys() != expected.keys():
            print(f"{name}: {', '.join(found)}, but libforetime gave {', '.join(expected)}: DIFFERENT")
            code = 1
            continue
        for what, values in expected.items():
            difference = float(np.abs(found[what] - values).max() / max(1.0, np.abs(values).max()))
            verdict = "equal" if difference <= options.tolerance else "DIFFERENT"
            print(f"{name}: {len(values)} {what}, largest difference from libforetime {difference:.2e}: {verdict}")
            code = code if verdict == "equal" else 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
