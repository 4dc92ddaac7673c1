"""Compares scores of published models with PyTorch's, from the same weights.

usage: published_models.py PATH_OF_model_scores

Each model of MODELS below is set up by a file of configs/baselines/ and written here a second time, from the formulas of
its publication, one candidate after another and with dense matrices; graphs are random ones and, where they are found,
files of TpuGraphs. The residual GCN is also asked of the class ResGCN of the PyTorch baseline, where its file is found
(FORETIME_PEERS/torch_layout.py, or ../shared/peers beside the project). Features are scaled here, from the .npz alone.
Exit code 77: skipped; 1: they differ.
"""
import ast
import os
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 1e-4  # relative to the largest score
CANDIDATES = 48
PROJECT = pathlib.Path(__file__).resolve().parents[2]


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


try:
    import numpy as np
    import torch
    from torch.nn.functional import leaky_relu, normalize
except ImportError as error:
    skip(f"{error} (install python3-torch and python3-numpy)")
sys.path.insert(0, str(PROJECT / "tools" / "data"))
from check_bundle import read_tensors  # noqa: E402


def folder(variable, beside):
    """The folder that an environment variable names, or one beside the project."""
    return pathlib.Path(os.environ[variable]) if variable in os.environ else PROJECT.parent / "shared" / beside


def scaled(values):
    """Min-max scaled columns, of which constant ones become 0."""
    values = values.astype(np.float64)
    low, high = values.min(0), values.max(0)
    kept = high > low
    result = np.where(kept, (values - low) / np.where(kept, high - low, 1), 0)
    return torch.from_numpy(result.astype(np.float32)), kept


class Graph:
    def __init__(self, path):
        raw = np.load(path)
        self.opcodes = torch.from_numpy(raw["node_opcode"].astype(np.int64))
        self.nodes = len(self.opcodes)
        self.features, self.kept = scaled(raw["node_feat"])
        self.edges = torch.from_numpy(np.ascontiguousarray(raw["edge_index"].astype(np.int64)))  # consumer, producer
        if "config_feat" in raw:
            self.tiles = scaled(raw["config_feat"])[0][:CANDIDATES]
            self.candidates = len(self.tiles)
            return
        self.configurable = torch.from_numpy(raw["node_config_ids"].astype(np.int64))
        rows = torch.from_numpy(raw["node_config_feat"][:CANDIDATES].astype(np.float32))
        self.candidates = len(rows)
        self.layouts = torch.zeros(self.candidates, self.nodes, 18)
        self.layouts[:, self.configurable] = rows

    def received(self):
        """[consumer, producer] counts of edges, dense."""
        a = torch.zeros(self.nodes, self.nodes)
        return a.index_put_((self.edges[:, 0], self.edges[:, 1]), torch.ones(len(self.edges)), accumulate=True)

    def undirected(self):
        return self.received() + self.received().t()

    def symmetric(self):
        """D^-1/2 (A + A^T + I) D^-1/2."""
        a = self.undirected() + torch.eye(self.nodes)
        root = a.sum(1).rsqrt()
        return root[:, None] * a * root[None, :]


class Weights:
    def __init__(self, tensors):
        self.tensors = tensors

    def __getitem__(self, name):
        return self.tensors[name]

    def linear(self, name, x):
        y = x @ self[f"{name}.weight"].t()
        return y + self[f"{name}.bias"] if f"{name}.bias" in self.tensors else y

    def dense(self, name, x, layers, last=False):
        for i in range(layers):
            x = self.linear(f"{name}.{i}", x)
            if last or i + 1 < layers:
                x = act(x)
        return x


def act(x):
    return leaky_relu(x, 0.2)


def nodes_of(graph, w):
    return torch.cat([graph.features, w["encoder.node_types.weight"][graph.opcodes]], 1)


def residual_gcn(graph, w):
    adjacency = graph.symmetric()
    for layouts in graph.layouts:
        layouts = 100 * layouts
        x = w.dense("encoder.dense", torch.cat([layouts, nodes_of(graph, w)], 1), 2, last=True)
        for i in range(2):
            x = x + act(w.dense(f"layers.{i}.mlp", adjacency @ torch.cat([layouts, x], 1), 2))
        pooled = [x.mean(0), normalize(x.sum(0), dim=0), normalize(x[graph.configurable].sum(0), dim=0)]
        yield w.dense("head", torch.cat(pooled), 2)


def early_join_sage(graph, w):
    adjacency = graph.undirected()
    for tile in graph.tiles:
        x = torch.cat([nodes_of(graph, w), tile.expand(graph.nodes, 24)], 1)
        for i in range(3):
            joined = w.linear(f"layers.{i}.own", x) + adjacency @ x @ w[f"layers.{i}.neighbours.weight"].t()
            x = normalize(act(joined), dim=1)
        yield w.dense("head", x.sum(0), 3)


def late_join_gcn(graph, w):
    looped = graph.received().t() + torch.eye(graph.nodes)  # [producer, consumer]
    n = looped / looped.sum(1, keepdim=True)
    matrix = n + n.t() + torch.eye(graph.nodes)
    x = w.dense("encoder.dense", nodes_of(graph, w), 2)
    for i in range(3):
        x = x + w.dense(f"layers.{i}.mlp", matrix @ act(x), 2)
    pooled = act(x).sum(0)
    for tile in graph.tiles:
        yield w.dense("head", torch.cat([pooled, tile]), 2)


def gat(graph, w):
    counts = graph.undirected() + torch.eye(graph.nodes)
    for layouts in graph.layouts:
        x = w.dense("encoder.dense", torch.cat([layouts, nodes_of(graph, w)], 1), 1, last=True)
        for i in range(3):
            z = (x @ w[f"layers.{i}.linear.weight"].t()).view(graph.nodes, 4, 16)
            heads = []
            for h in range(4):
                scores = leaky_relu(
                    (z[:, h] @ w[f"layers.{i}.target"][h])[:, None] + (z[:, h] @ w[f"layers.{i}.source"][h])[None, :],
                    0.2,
                )
                # An edge that stands there twice counts twice.
                weights = torch.softmax(torch.where(counts > 0, scores + counts.log(), torch.tensor(-torch.inf)), 1)
                heads.append(weights @ z[:, h])
            x = act(torch.cat(heads, 1) + w[f"layers.{i}.bias"])
        yield w.dense("head", x.mean(0), 1)


def chebnet_sage(graph, w):
    received, both = graph.received(), graph.undirected()
    degree = both.sum(1)
    root = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), torch.zeros(()))
    laplacian = -root[:, None] * both * root[None, :]  # 2 L / 2 - I
    mean = lambda a, x: a @ x / a.sum(1, keepdim=True).clamp(min=1)
    for layouts in graph.layouts:
        x = w.dense("encoder.dense", torch.cat([layouts, nodes_of(graph, w)], 1), 1, last=True)
        terms = [x, laplacian @ x]
        terms.append(2 * laplacian @ terms[1] - terms[0])
        x = act(sum(w.linear(f"layers.0.terms.{k}", term) for k, term in enumerate(terms)))
        x = act(
            w.linear("layers.1.own", x)
            + w.linear("layers.1.producers", mean(received, x))
            + w.linear("layers.1.consumers", mean(received.t(), x))
        )
        yield w.dense("head", torch.cat([x.mean(0), x.max(0).values]), 2)


MODELS = [
    ("residual_gcn", residual_gcn),
    ("xu_gat_listmle_layout", gat),
    ("chebnet_sage_layout", chebnet_sage),
    ("early_join_sage", early_join_sage),
    ("late_join_gcn", late_join_gcn),
]
REAL = {
    "layout": "tpugraphs/npz/layout/xla/default/train/alexnet_train_batch_32.npz",
    "tile": "tpugraphs/npz/tile/xla/from_pb/testdata_fusion.191.npz",
}


def write_random_graphs(scratch):
    """A layout and a tile graph in TpuGraphs' form."""
    draw = np.random.default_rng(1)
    nodes, candidates = 40, 30
    edges = [(v, u) for v in range(1, nodes) for u in draw.integers(0, v, 2)]  # some of them twice
    common = dict(
        node_feat=draw.integers(-3, 60, (nodes, 140)).astype(np.float32),
        node_opcode=draw.integers(1, 100, nodes).astype(np.uint8),
        edge_index=np.array(edges, np.int64),
    )
    configurable = np.sort(draw.choice(nodes, 9, replace=False)).astype(np.int64)
    np.savez(
        scratch / "layout.npz",
        **common,
        node_config_ids=configurable,
        node_config_feat=draw.integers(-1, 6, (candidates, 9, 18)).astype(np.float32),
        node_splits=np.array([[0, nodes]], np.int64),
        config_runtime=draw.integers(1, 10**9, candidates),
    )
    np.savez(
        scratch / "tile.npz",
        **common,
        config_feat=draw.integers(0, 500, (candidates, 24)).astype(np.float32),
        config_runtime=draw.integers(1, 10**6, candidates),
        config_runtime_normalizers=np.full(candidates, 1000),
    )


def peers_scores(file, graph, w):
    """By the baseline's own class; its file runs when imported, so only its definitions are taken."""
    tree = ast.parse(file.read_text())
    definitions = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    tree.body = [node for node in tree.body if isinstance(node, definitions)]
    names = {}
    exec(compile(tree, str(file), "exec"), names)
    features = np.flatnonzero(graph.kept)
    columns = torch.from_numpy(np.concatenate([np.arange(18), 18 + features, 18 + len(graph.kept) + np.arange(32)]))
    model = names["ResGCN"](len(features), len(w["encoder.node_types.weight"]), 32, 2)
    state = {
        "emb.weight": w["encoder.node_types.weight"],
        "post.0.weight": w["head.0.weight"],
        "post.2.weight": w["head.1.weight"],
    }
    for theirs, ours in [("pre", "encoder.dense"), ("gc.0", "layers.0.mlp"), ("gc.1", "layers.1.mlp")]:
        for index, name in [("0", "0"), ("2", "1")]:
            for part in ("weight", "bias"):
                state[f"{theirs}.{index}.{part}"] = w[f"{ours}.{name}.{part}"]
    state["pre.0.weight"] = state["pre.0.weight"][:, columns]
    model.load_state_dict(state)
    inputs = dict(feat=graph.features[:, features], op=graph.opcodes, ids=graph.configurable)
    layouts = 100 * graph.layouts.transpose(0, 1)
    return model.readout(inputs, model.nodes(inputs, names["sym_adj"](graph.edges, graph.nodes), layouts))


def agree(label, found, expected):
    largest = float(expected.abs().max())
    difference, spread = float((found - expected).abs().max()), float(expected.max() - expected.min())
    print(
        f"{label}: {len(expected)} scores in [{float(expected.min()):.6g}, {float(expected.max()):.6g}], "
        f"largest difference {difference:.2e}, allowed {TOLERANCE * largest:.1e}"
    )
    # Scores that hardly differ between candidates would agree by accident.
    return difference <= TOLERANCE * largest and spread > 10 * max(difference, 1e-7 * largest)


def main():
    data, peer = folder("FORETIME_DATA", "data"), folder("FORETIME_PEERS", "peers") / "torch_layout.py"
    failed = False
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        scratch = pathlib.Path(name)
        write_random_graphs(scratch)
        for model, scores in MODELS:
            settings = PROJECT / "configs" / "baselines" / f"{model}.yaml"
            kind = "tile" if "format: tile" in settings.read_text() else "layout"
            for path in [scratch / f"{kind}.npz", data / REAL[kind]]:
                if not path.is_file():
                    print(f"not compared on TpuGraphs: no {path}")
                    continue
                out = scratch / "scores.safetensors"
                subprocess.run([sys.argv[1], str(settings), str(path), str(CANDIDATES), str(out)], check=True)
                weights = Weights(
                    {name: torch.from_numpy(values.copy()) for name, values in read_tensors(out)[1].items()}
                )
                graph, found = Graph(path), weights["scores"]
                expected = torch.stack([score.squeeze() for score in scores(graph, weights)])
                failed |= not agree(f"{model}, {path.stem}", found, expected)
                if model == "residual_gcn" and peer.is_file():
                    failed |= not agree(
                        f"{model}, {path.stem}, PyTorch baseline", found, peers_scores(peer, graph, weights)
                    )
    sys.exit(1 if failed else 0)


main()
