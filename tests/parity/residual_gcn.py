"""Compares the residual GCN's scores with PyTorch's, from the same weights on a real graph.

usage: residual_gcn.py PATH_OF_residual_gcn_scores

Two PyTorch models are asked: the one below, written from the published formulas, and the class ResGCN of the PyTorch
baseline, where its file is found (FORETIME_PEERS/torch_layout.py, or ../shared/peers beside the project). Both get
features scaled here, from the .npz alone. Exit code 77: skipped; 1: they differ.
"""
import ast
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 1e-4
CANDIDATES = 48
GRAPH = "tpugraphs/npz/layout/xla/default/train/unet3d.npz"


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


try:
    import numpy as np
    import torch
except ImportError as error:
    skip(f"{error} (install python3-torch and python3-numpy)")


def folder(variable, beside):
    """The folder that an environment variable names, or one beside the project."""
    root = pathlib.Path(__file__).resolve().parents[2]
    return pathlib.Path(os.environ[variable]) if variable in os.environ else root.parent / "shared" / beside


def read_safetensors(path):
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    types = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            values = np.frombuffer(raw[start + first:start + last], types[entry["dtype"]])
            tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors


class Graph:
    """One layout graph with min-max scaled features, constant columns dropped."""

    def __init__(self, path, candidates):
        raw = np.load(path)
        self.opcodes = torch.from_numpy(raw["node_opcode"].astype(np.int64))
        self.nodes = len(self.opcodes)
        features = raw["node_feat"].astype(np.float64)
        low, high = features.min(0), features.max(0)
        self.kept = high > low
        scaled = (features[:, self.kept] - low[self.kept]) / (high - low)[self.kept]
        self.features = torch.from_numpy(scaled.astype(np.float32))
        self.configurable = torch.from_numpy(raw["node_config_ids"].astype(np.int64))
        rows = np.ascontiguousarray(raw["node_config_feat"][:candidates].transpose(1, 0, 2)).astype(np.float32)
        self.layouts = torch.zeros(self.nodes, rows.shape[1], 18)
        self.layouts[self.configurable] = 100 * torch.from_numpy(rows)
        self.edges = torch.from_numpy(np.ascontiguousarray(raw["edge_index"].astype(np.int64)))

    def adjacency(self):
        """D^-1/2 (A + A^T + I) D^-1/2, dense."""
        a = torch.zeros(self.nodes, self.nodes)
        ones = torch.ones(len(self.edges))
        a.index_put_((self.edges[:, 0], self.edges[:, 1]), ones, accumulate=True)
        a = a + a.t() + torch.eye(self.nodes)
        root = a.sum(1).rsqrt()
        return root[:, None] * a * root[None, :]


def kept_columns(graph):
    """Columns of the encoder's weight that a model without constant columns has: layouts, kept features, embedding."""
    features = np.flatnonzero(graph.kept)
    total = len(graph.kept)
    return torch.from_numpy(np.concatenate([np.arange(18), 18 + features, 18 + total + np.arange(32)]))


def own_scores(graph, weights):
    """The published formulas (MODELS.md, residual GCN), one candidate after another."""
    act = lambda x: torch.nn.functional.leaky_relu(x, 0.2)
    unit = lambda x: x / x.norm()
    columns = kept_columns(graph)
    adjacency = graph.adjacency()

    def mlp(name, x, columns=None):
        first = weights[f"{name}.0.weight"]
        hidden = act(x @ (first if columns is None else first[:, columns]).t() + weights[f"{name}.0.bias"])
        return hidden @ weights[f"{name}.1.weight"].t() + weights[f"{name}.1.bias"]

    scores = []
    for c in range(graph.layouts.shape[1]):
        layout = graph.layouts[:, c]
        embedding = weights["encoder.node_types.weight"][graph.opcodes]
        x = act(mlp("encoder.dense", torch.cat([layout, graph.features, embedding], 1), columns))
        for i in range(2):
            x = x + act(mlp(f"layers.{i}.mlp", adjacency @ torch.cat([layout, x], 1)))
        pooled = torch.cat([x.mean(0), unit(x.sum(0)), unit(x[graph.configurable].sum(0))])
        scores.append(weights["head.1.weight"] @ act(weights["head.0.weight"] @ pooled))
    return torch.cat(scores)


def baseline_scores(file, graph, weights):
    """By the baseline's own class; its file runs when imported, so only its definitions are taken."""
    tree = ast.parse(file.read_text())
    definitions = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    tree.body = [node for node in tree.body if isinstance(node, definitions)]
    names = {}
    exec(compile(tree, str(file), "exec"), names)
    model = names["ResGCN"](int(graph.kept.sum()), len(weights["encoder.node_types.weight"]), 32, 2)
    state = {"emb.weight": weights["encoder.node_types.weight"],
             "post.0.weight": weights["head.0.weight"], "post.2.weight": weights["head.1.weight"]}
    for theirs, ours in [("pre", "encoder.dense"), ("gc.0", "layers.0.mlp"), ("gc.1", "layers.1.mlp")]:
        for index, name in [("0", "0"), ("2", "1")]:
            for part in ("weight", "bias"):
                state[f"{theirs}.{index}.{part}"] = weights[f"{ours}.{name}.{part}"]
    state["pre.0.weight"] = state["pre.0.weight"][:, kept_columns(graph)]
    model.load_state_dict(state)
    inputs = dict(feat=graph.features, op=graph.opcodes, ids=graph.configurable)
    return model.readout(inputs, model.nodes(inputs, names["sym_adj"](graph.edges, graph.nodes), graph.layouts))


def main():
    path = folder("FORETIME_DATA", "data") / GRAPH
    if not path.is_file():
        skip(f"no {path} (set FORETIME_DATA to the folder that holds tpugraphs/)")
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "scores.safetensors"
        subprocess.run([sys.argv[1], str(path), str(CANDIDATES), str(out)], check=True)
        weights = read_safetensors(out)
    found = weights.pop("scores")
    graph = Graph(path, CANDIDATES)
    baseline = folder("FORETIME_PEERS", "peers") / "torch_layout.py"
    failed = False
    with torch.no_grad():
        references = {"independent PyTorch": own_scores(graph, weights)}
        if baseline.is_file():
            references["PyTorch baseline"] = baseline_scores(baseline, graph, weights)
        else:
            print(f"not compared with the PyTorch baseline: no {baseline}")
    for name, expected in references.items():
        difference = float((found - expected).abs().max())
        print(f"{name}: {len(expected)} scores in [{float(expected.min()):.6f}, {float(expected.max()):.6f}], "
              f"largest difference {difference:.2e}, allowed {TOLERANCE:.0e}")
        failed |= not difference <= TOLERANCE
        # Scores that hardly differ between candidates would agree by accident.
        failed |= float(expected.max() - expected.min()) <= 10 * TOLERANCE
    sys.exit(1 if failed else 0)


main()
