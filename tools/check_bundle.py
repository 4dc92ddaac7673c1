#!/usr/bin/env python3
"""Runs a bundle with NumPy alone: the reference for whoever writes a runtime, and a check of the others.

  tools/check_bundle.py MODEL.foretime                      prints what the bundle says of itself
  tools/check_bundle.py MODEL.foretime INPUTS.npz [--torchscript MODEL.pt] [--tolerance 1e-5]

INPUTS.npz holds the arrays that the model reads of one group, and libforetime's scores of it:
  foretime bundle inputs MODEL.foretime FILE -o INPUTS.npz
The scores are computed again from the list of operations in the bundle, and with --torchscript by `torch.jit.load` too;
exit code 1 where they differ by more than the tolerance, relative to the largest score (at least 1).
"""

import argparse
import json
import struct
import sys

import numpy as np

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
         "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}


def read_bundle(path):
    """(manifest, {name: array}): a safetensors file whose metadata hold the manifest."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    if metadata.get("format") != "foretime-bundle":
        raise SystemExit(f"{path}: a safetensors file, but no bundle of Foretime")
    weights = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin:8 + length + end], TYPES[entry["dtype"]])
        weights[name] = values.reshape(entry["shape"])
    return json.loads(metadata["manifest"]), weights


def leaky(x, slope):
    return np.where(x < 0, x * np.float32(slope), x)


class Run:
    """One pass through the two lists of a form. `plan`: the arrays of INPUTS.npz."""

    def __init__(self, form, weights, plan):
        self.form, self.weights, self.plan = form, weights, dict(plan)
        self.group_ptr = plan["group_ptr"]

    def scores(self):
        values = {name: self.plan[name] for name in ("node_features", "layout_rows", "candidate_features")
                  if name in self.plan}
        for operation in self.form["embed"]:
            values[operation["result"]] = self.evaluate(operation, values)
        values = {"embedded": values[self.form["embedded"]]}
        for operation in self.form["score"]:
            values[operation["result"]] = self.evaluate(operation, values)
        return values[self.form["scores"]][:, 0]

    def evaluate(self, operation, values):
        inputs = [values[name] for name in operation.get("inputs", [])]
        result = getattr(self, operation["op"])(operation, *inputs)
        return np.asarray(result, dtype=np.float32)

    def weight(self, o, i):
        names = o.get("weights", [])
        return self.weights[names[i]] if i < len(names) and names[i] else None

    @staticmethod
    def number(o, name, otherwise):
        return o.get("numbers", {}).get(name, otherwise)

    def activated(self, o, x):
        return leaky(x, self.number(o, "slope", 1.0))

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

    # The operations, as inference/graph/form.h describes them.

    def select(self, o, x):
        return x[:, o["columns"]]

    def transform(self, o, x):
        if self.number(o, "log", 0):
            x = np.sign(x) * np.log1p(np.abs(x))
        x = (x - self.weight(o, 0)) * self.weight(o, 1)
        clip = self.number(o, "clip", 0)
        return np.clip(x, -clip, clip) if clip > 0 else x

    def codes(self, o, x):
        count = int(self.number(o, "values", 1))
        code = np.clip(x - self.number(o, "least", 0), 0, count - 1).astype(np.int64)
        vectors = self.weight(o, 0)[code + count * np.arange(x.shape[1])]
        vectors[0] = 0
        return vectors.reshape(len(x), -1)

    def lookup(self, o):
        return self.weight(o, 0)[self.plan[o["matrices"][0] + ".columns"]]

    def dense(self, o, x):
        start = int(self.number(o, "start", 0))
        y = x @ self.weight(o, 0)[:, start:start + x.shape[1]].T
        bias = self.weight(o, 1)
        return self.activated(o, y if bias is None else y + bias)

    def csr_sum(self, o, *inputs):
        y = sum(self.product(name, x) if name else x for name, x in zip(o["matrices"], inputs))
        bias = self.weight(o, 0)
        return self.activated(o, y if bias is None else y + bias)

    def csr_max(self, o, x):
        return self.maxima(o["matrices"][0], x)

    def attention(self, o, a, b, z):
        name, heads = o["matrices"][0], int(self.number(o, "heads", 1))
        rows, columns, count = self.rows_of(name), self.plan[name + ".columns"], len(self.plan[name + ".row_ptr"]) - 1
        if o["mode"] == "additive":
            logits = leaky(a[rows] + b[columns], self.number(o, "logit_slope", 1.0))
        else:
            logits = (a[rows] * b[columns]).reshape(len(rows), heads, -1).sum(2) * self.number(o, "scale", 1.0)
        largest = np.full((count, heads), -np.inf)
        np.maximum.at(largest, rows, logits)
        weights = np.exp(logits - largest[rows]) * self.plan[name + ".values"][:, None]
        sums = np.zeros((count, heads))
        np.add.at(sums, rows, weights)
        weights = weights / np.where(sums == 0, 1, sums)[rows]
        result = np.zeros((count, z.shape[1]))
        np.add.at(result, rows, (z[columns].reshape(len(rows), heads, -1) * weights[:, :, None]).reshape(len(rows), -1))
        return result

    def join(self, o, *inputs):
        return np.concatenate(inputs, 1)

    def add(self, o, *inputs):
        y = sum(np.float32(self.number(o, f"factor{i}", 1.0)) * x for i, x in enumerate(inputs))
        bias = self.weight(o, 0)
        return y if bias is None else y + bias

    def multiply(self, o, x, z):
        return x * z

    def activate(self, o, x):
        return self.activated(o, x) if o["mode"] == "leaky" else getattr(np, o["mode"])(x)

    def normalize(self, o, x):
        if o["mode"] == "l2":
            return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), self.number(o, "epsilon", 1e-12))
        if o["mode"] == "layer":
            centered = x - x.mean(1, keepdims=True)
            x = centered / np.sqrt((centered ** 2).mean(1, keepdims=True) + self.number(o, "epsilon", 1e-5))
        return x * self.weight(o, 0) + self.weight(o, 1)

    def pool(self, o, x):
        name = o["matrices"][0]
        stages = [name] if name + ".row_ptr" in self.plan else []
        while stages != [name] and f"{name}.{len(stages)}.row_ptr" in self.plan:
            stages.append(f"{name}.{len(stages)}")
        counts = np.ones((len(x), 1), np.float32)
        for stage in stages:
            counts = self.product(stage, counts)
            x = (self.maxima if o["mode"] == "max" else self.product)(stage, x)
        return x / np.maximum(counts, 1) if o["mode"] == "mean" else x

    def group(self, o, x):
        groups = []
        for first, last in zip(self.group_ptr, self.group_ptr[1:]):
            own = x[first:last].astype(np.float64)
            if o["mode"] == "standardize":
                centered = own - own.mean(0)
                groups.append(centered / np.sqrt((centered ** 2).mean(0) + self.number(o, "epsilon", 1e-5)))
            else:
                logits = own * self.weight(o, 0)
                weights = np.exp(logits - logits.max(0))
                groups.append(np.concatenate([own, own * weights / weights.sum(0) * len(own)], 1))
        return np.concatenate(groups)

    def top_nodes(self, o, x):
        (adjacency, nodes), v = o["matrices"], self.weight(o, 0)
        nodes = nodes if nodes + ".row_ptr" in self.plan else nodes + ".0"
        score = (x @ v / max(np.linalg.norm(v), 1e-12)).astype(np.float64)
        ratio, tie = self.number(o, "ratio", 1.0), self.number(o, "tie", 0.0)
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
        for what, matrix in {"adjacency": (row_ptr, columns, values),
                             "relation": (row_ptr, columns, values * root[rows] * root[columns]),
                             "nodes": (np.array(kept_ptr), np.arange(len(kept)), ones)}.items():
            for part, array in zip(("row_ptr", "columns", "values"), matrix):
                self.plan[f"{o['result']}.{what}.{part}"] = array
        return x[kept] * np.tanh(score[kept])[:, None]


def torchscript_scores(path, plan):
    import torch  # only where it is asked for

    module = torch.jit.load(path)
    with torch.no_grad():
        return module({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in plan.items()}).numpy()


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("inputs", nargs="?")
    parser.add_argument("--torchscript")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args(arguments)
    manifest, weights = read_bundle(options.bundle)
    if not options.inputs:
        form = manifest.pop("form")
        print(json.dumps(manifest, indent=2))
        print(f"{len(weights)} tensors, {sum(array.size for array in weights.values())} numbers; operations:",
              " ".join(o["op"] for o in form["embed"] + form["score"]))
        return 0
    with np.load(options.inputs) as file:
        plan = dict(file)
    expected = plan.pop("scores")
    runtimes = {"NumPy": Run(manifest["form"], weights, plan).scores()}
    if options.torchscript:
        runtimes["TorchScript"] = torchscript_scores(options.torchscript, plan)
    code = 0
    for name, scores in runtimes.items():
        difference = float(np.abs(scores - expected).max() / max(1.0, np.abs(expected).max()))
        verdict = "equal" if difference <= options.tolerance else "DIFFERENT"
        print(f"{name}: {len(scores)} scores, largest difference from libforetime {difference:.2e}: {verdict}")
        code = code if verdict == "equal" else 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
