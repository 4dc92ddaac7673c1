#!/usr/bin/env python3
"""The residual GCN of the TpuGraphs paper (2 layers of 32) as a user of PyTorch Geometric writes it: milliseconds of a training
step on all graphs of a folder at once, 16 candidates of each, as Foretime's `residual GCN 2 x 32` has them
(tests/acceptance/workloads.cpp). Every node of every candidate is computed. The structure of the graphs, their weights and
everything else that steps have in common is made beforehand and stays on the device; a step draws candidates and brings up
their layouts.

Prints a line of JSON for GCNConv of torch_geometric, and one for torch.sparse alone; where torch_geometric is not installed,
the other one alone, and its note says so.

usage: pyg_layout.py --data FOLDER [--device cuda] [--steps 20] [--candidates 16] [--hidden 32] [--layers 2]
"""
import argparse
import json
import pathlib
import sys
import time

import numpy as np
import torch
from torch.nn.functional import leaky_relu, normalize

LAYOUT = 18  # layout features of a configurable node


class Graphs:
    """All graphs of a folder side by side, on the device."""

    def __init__(self, folder, device):
        files = [dict(np.load(path)) for path in sorted(pathlib.Path(folder).glob("*.npz"))]
        if not files:
            raise SystemExit(f"{folder}: no .npz files")
        counts = [len(file["node_opcode"]) for file in files]
        starts = np.concatenate([[0], np.cumsum(counts)])
        self.nodes, self.graphs, self.device = int(starts[-1]), len(files), device
        features = np.concatenate([file["node_feat"] for file in files]).astype(np.float32)
        low, high = features.min(0), features.max(0)
        features = ((features - low) / np.where(high > low, high - low, 1))[:, high > low]
        self.features = torch.from_numpy(features).to(device)
        self.opcodes = torch.from_numpy(np.concatenate([file["node_opcode"] for file in files]).astype(np.int64)).to(
            device
        )
        self.graph_of = torch.repeat_interleave(torch.arange(self.graphs), torch.tensor(counts)).to(device)
        self.count = torch.tensor(counts, dtype=torch.float32, device=device).view(1, -1, 1)
        self.configurable = [
            torch.from_numpy(file["node_config_ids"].astype(np.int64) + start) for file, start in zip(files, starts)
        ]
        self.tuned = torch.cat(self.configurable).to(device)
        self.layouts = [file["node_config_feat"] for file in files]
        self.runtimes = [file["config_runtime"].astype(np.int64) for file in files]
        # D^-1/2 (A + A^T + I) D^-1/2
        edges = torch.from_numpy(
            np.concatenate([file["edge_index"] + start for file, start in zip(files, starts)]).astype(np.int64)
        )
        own = torch.arange(self.nodes)
        source, target = (torch.cat([edges[:, a], edges[:, b], own]).to(device) for a, b in ((0, 1), (1, 0)))
        degree = torch.zeros(self.nodes, device=device).index_add_(0, target, torch.ones(len(target), device=device))
        self.edges, self.weights = torch.stack([source, target]), (degree[source] * degree[target]).rsqrt()

    def draw(self, random, candidates):
        """Layouts [candidates, nodes, 18] and the order of the run times [graphs, candidates], fastest first."""
        layouts = np.zeros((candidates, self.nodes, LAYOUT), np.float32)
        order = []
        for ids, all_layouts, runtimes in zip(self.configurable, self.layouts, self.runtimes):
            rows = random.choice(len(runtimes), candidates, replace=False)
            layouts[:, ids.numpy()] = 100 * all_layouts[rows]
            order.append(np.argsort(runtimes[rows]))
        order = torch.from_numpy(np.stack(order))
        return torch.from_numpy(layouts).to(self.device, non_blocking=True), order.to(self.device, non_blocking=True)

    def sums(self, x, graph_of):
        return torch.zeros(x.shape[0], self.graphs, x.shape[2], device=x.device).index_add_(1, graph_of, x)


def mlp(inputs, hidden):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, hidden), torch.nn.LeakyReLU(0.2), torch.nn.Linear(hidden, hidden)
    )


class Alone(torch.nn.Module):
    """A graph convolution by torch.sparse: the candidates side by side as columns of one product."""

    def __init__(self, graphs, inputs, hidden):
        super().__init__()
        size = (graphs.nodes, graphs.nodes)
        self.matrix = torch.sparse_coo_tensor(graphs.edges.flip(0), graphs.weights, size).coalesce()
        self.dense = mlp(inputs, hidden)

    def forward(self, x):
        by_node = x.transpose(0, 1)
        y = torch.sparse.mm(self.matrix, by_node.reshape(by_node.shape[0], -1)).view(by_node.shape)
        return self.dense(y.transpose(0, 1))


class Geometric(torch.nn.Module):
    """By torch_geometric: one structure for all candidates, as GCNConv has it for static graphs."""

    def __init__(self, graphs, inputs, hidden):
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.edges, self.weights = graphs.edges, graphs.weights
        self.convolution = GCNConv(inputs, hidden, normalize=False, add_self_loops=False)
        self.after = torch.nn.Linear(hidden, hidden)

    def forward(self, x):
        return self.after(leaky_relu(self.convolution(x, self.edges, self.weights), 0.2))


class ResidualGcn(torch.nn.Module):
    def __init__(self, graphs, options, convolution):
        super().__init__()
        self.graphs, hidden = graphs, options.hidden
        self.opcodes = torch.nn.Embedding(int(graphs.opcodes.max()) + 1, 32)
        self.encoder = mlp(LAYOUT + graphs.features.shape[1] + 32, hidden)
        self.layers = torch.nn.ModuleList([convolution(graphs, LAYOUT + hidden, hidden) for _ in range(options.layers)])
        self.head = torch.nn.Sequential(
            torch.nn.Linear(3 * hidden, hidden, bias=False),
            torch.nn.LeakyReLU(0.2),
            torch.nn.Linear(hidden, 1, bias=False),
        )

    def forward(self, layouts):
        """[candidates, graphs]"""
        graphs = self.graphs
        nodes = torch.cat([graphs.features, self.opcodes(graphs.opcodes)], 1)
        x = leaky_relu(self.encoder(torch.cat([layouts, nodes.expand(layouts.shape[0], -1, -1)], 2)), 0.2)
        for layer in self.layers:
            x = x + leaky_relu(layer(torch.cat([layouts, x], 2)), 0.2)
        sums, tuned = graphs.sums(x, graphs.graph_of), graphs.sums(x[:, graphs.tuned], graphs.graph_of[graphs.tuned])
        return self.head(torch.cat([sums / graphs.count, normalize(sums, dim=2), normalize(tuned, dim=2)], 2)).squeeze(
            2
        )


def milliseconds(graphs, options, convolution):
    """Of a step: the best of three means."""
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    model = ResidualGcn(graphs, options, convolution).to(graphs.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        layouts, order = graphs.draw(random, options.candidates)
        optimizer.zero_grad()
        ordered = -model(layouts).t().gather(1, order)  # ListMLE
        loss = (torch.logcumsumexp(ordered.flip(1), 1).flip(1) - ordered).sum(1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def wait():
        if graphs.device.type == "cuda":
            torch.cuda.synchronize()

    for _ in range(2):
        loss = step()
    means = []
    for _ in range(3):
        wait()
        start = time.perf_counter()
        for _ in range(options.steps):
            loss = step()
        wait()
        means.append(1e3 * (time.perf_counter() - start) / options.steps)
    if not torch.isfinite(loss):
        raise SystemExit("pyg_layout.py: the loss is not finite")
    return min(means)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in {"steps": 20, "candidates": 16, "hidden": 32, "layers": 2, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    graphs = Graphs(options.data, torch.device(options.device))
    note = f"{graphs.graphs} graphs of {graphs.nodes} nodes together, {options.candidates} candidates each"
    try:
        import torch_geometric

        print(
            json.dumps(
                {
                    "by": f"torch_geometric {torch_geometric.__version__}",
                    "note": note,
                    "ms_per_step": milliseconds(graphs, options, Geometric),
                }
            ),
            flush=True,
        )
    except ImportError as error:
        note += f"; torch_geometric is not installed ({error})"
    except Exception as error:  # pylint: disable=broad-except  # the other line is worth having all the same
        note += f"; torch_geometric failed: {error}"
    print(
        json.dumps(
            {
                "by": f"torch {torch.__version__} alone",
                "note": note,
                "ms_per_step": milliseconds(graphs, options, Alone),
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
