#!/usr/bin/env python3
"""The tasks that are measured, as lines of JSON: layers of networks (networks.py) and shapes that a generator draws.

  tools/tuner/measure/tasks.py [--held-out | --searched]      prints them, and how many each operator has

A pure function of what stands here: the same tasks in the same order on every machine. Needs no TVM.
"""
import argparse
import collections
import json
import pathlib
import random
import sys

TOOLS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TOOLS))

from networks import HELD_OUT, NETWORKS  # noqa: E402
from workloads import lines_of  # noqa: E402

SAMPLES = TOOLS.parents[1] / "samples/ansor"

MOST_OPERATIONS = 1.2e9  # of one program; larger ones take seconds on one core under a bad schedule
SEED = 20
# Of each operator, at most so many tasks from networks, and so many of the generator.
SHARES = {
    "conv2d": (150, 24),
    "conv2d_nchwc": (22, 8),
    "conv2d_winograd": (14, 4),
    "conv2d_transpose": (10, 6),
    "conv1d": (16, 6),
    "conv3d": (12, 4),
    "dense": (44, 16),
    "batch_matmul": (20, 8),
    "softmax": (12, 4),
    "layer_norm": (10, 4),
    "rms_norm": (4, 4),
    "group_norm": (10, 4),
    "batch_norm": (0, 6),
    "pool2d": (14, 4),
    "pool3d": (2, 2),
    "global_pool": (10, 2),
    "adaptive_pool": (0, 4),
    "resize": (6, 4),
    "reduction": (1, 12),
    "embedding_bag": (6, 4),
    "lstm_cell": (4, 3),
    "gru_cell": (2, 3),
    "elementwise": (10, 6),
    "transpose": (4, 4),
    "channel_shuffle": (3, 1),
}

# Of each kind of layer of the held-out networks, so many tasks that searches are compared on.
SEARCHED = {
    "conv2d 1x1": 2,
    "conv2d kxk": 1,
    "conv2d grouped": 2,
    "conv2d depthwise": 2,
    "conv2d_nchwc": 1,
    "conv2d int8": 1,
    "conv1d": 1,
    "dense": 1,
    "squeeze-and-excite dense": 1,
    "squeeze-and-excite gate": 1,
    "layer_norm": 2,
    "softmax": 1,
    "attention queries-keys": 1,
    "attention values": 1,
}


def key(task):
    return json.dumps([task["operator"], task["arguments"]], sort_keys=True)


def product(values):
    found = 1
    for value in values:
        found *= value
    return found


def operations(operator, a):
    """Multiply-adds and the like, times two; 0 where there are few."""
    kernel = a.get("k", 1)
    k2 = product(kernel) if isinstance(kernel, list) else kernel * kernel
    if operator.startswith("conv2d"):
        grown = a.get("s", 1) ** (2 if operator == "conv2d_transpose" else -2)
        return (
            2
            * a["h"]
            * a["w"]
            * grown
            * a["ci"]
            * a["co"]
            * (9 if operator == "conv2d_winograd" else k2)
            / a.get("g", 1)
        )
    if operator == "conv1d":
        return 2 * a["length"] / a.get("s", 1) * a["ci"] * a["co"] * a["k"] / a.get("g", 1)
    if operator == "conv3d":
        return 2 * a["t"] * a["h"] * a["w"] / a.get("s", 1) ** 3 * a["ci"] * a["co"] * a["kt"] * k2
    if operator in ("dense", "batch_matmul"):
        return 2 * a.get("b", 1) * a["m"] * a["k"] * a["n"]
    return 0


def is_sound(task):
    operator, a = task["operator"], task["arguments"]
    if operations(operator, a) > MOST_OPERATIONS:
        return False
    if operator == "softmax":
        return a["rows"] * a["columns"] <= 4e6
    return operator != "layer_norm" or a["rows"] * a["columns"] <= 2e6


def layers_of(networks):
    """Each distinct layer, with the networks that have it; convolutions also as NCHWc, by Winograd and in int8."""
    found = {}

    def note(operator, arguments, network):
        task = {"operator": operator, "arguments": arguments}
        if is_sound(task):
            found.setdefault(key(task), {**task, "networks": []})["networks"].append(network)

    for network, layers in networks.items():
        for operator, arguments in layers():
            note(operator, arguments, network)
            if operator != "conv2d" or arguments.get("g", 1) > 1:
                continue
            a = {name: value for name, value in arguments.items() if name not in ("g", "layout")}
            if a["ci"] % 16 == 0 and a["co"] % 16 == 0 and "residual" not in a["epilogue"]:
                note("conv2d_nchwc", {**a, "epilogue": "bias+relu"}, network)
            if a["k"] == 3 and a["s"] == 1 and a["d"] == 1 and a["ci"] >= 32 and a["h"] <= 60:
                wino = {name: a[name] for name in ("h", "w", "ci", "co")}
                note("conv2d_winograd", {**wino, "layout": arguments["layout"], "epilogue": "bias+relu"}, network)
            if a["ci"] % 16 == 0 and arguments["layout"] == "nhwc":
                note("conv2d", {**arguments, "epilogue": "", "dtype": "int8"}, network)
    return found


def spread(tasks, most, generator):
    """At most so many, drawn so that each network's layers have the same chance."""
    if len(tasks) <= most:
        return tasks
    by_network = collections.defaultdict(list)
    for task in tasks:
        by_network[generator.choice(task["networks"])].append(task)
    for group in by_network.values():
        generator.shuffle(group)
    chosen = []
    while len(chosen) < most:
        for name in sorted(by_network):
            if by_network[name] and len(chosen) < most:
                chosen.append(by_network[name].pop())
    return chosen


def draw(operator, r):
    """Arguments of one task of the generator."""

    def size(low, high, step=1):  # evenly over orders of magnitude
        return max(step, round(low * (high / low) ** r.random() / step) * step)

    act = r.choice(
        [
            "",
            "bias",
            "bias+relu",
            "scale_shift+relu6",
            "scale_shift+silu",
            "bias+gelu",
            "scale_shift+residual+relu",
            "bias+hard_swish",
            "scale_shift+leaky_relu",
            "bias+tanh",
        ]
    )
    h = size(5, 120)
    if operator == "conv2d":
        kind = r.choice(["plain", "plain", "grouped", "grouped", "depthwise", "depthwise", "dilated", "int8"])
        k, ci, co = r.choice([1, 3, 3, 5, 7]), size(8, 512, 4), size(8, 512, 4)
        a = {
            "h": h,
            "w": max(4, h + r.choice([0, 0, -3, 9])),
            "ci": ci,
            "co": co,
            "k": k,
            "s": r.choice([1, 1, 2]),
            "d": 1,
            "g": 1,
            "layout": r.choice(["nhwc", "nchw"]),
            "epilogue": act,
        }
        if kind == "grouped":
            g = r.choice([2, 3, 4, 8, 16, 32])
            a.update(g=g, ci=g * size(2, 32), co=g * size(2, 32), k=3)
        if kind == "depthwise":
            a.update(g=ci, co=ci, k=r.choice([3, 3, 5, 7]))
        if kind == "dilated":
            a.update(d=r.choice([2, 3, 4]), k=3, s=1)
        if kind == "int8":
            a.update(dtype="int8", epilogue="", ci=size(16, 256, 16), co=size(16, 256, 16), layout="nhwc")
        return a
    if operator == "conv2d_nchwc":
        block = r.choice([4, 8, 16, 32])
        return {
            "h": h,
            "w": h,
            "ci": block * size(1, 16),
            "co": block * size(1, 16),
            "k": r.choice([1, 3, 5]),
            "s": r.choice([1, 2]),
            "block_in": block,
            "block_out": block,
            "epilogue": r.choice(["", "bias+relu", "scale_shift+relu6"]),
        }
    if operator == "conv2d_winograd":
        return {
            "h": 4 * size(2, 14),
            "w": 4 * size(2, 14),
            "ci": size(16, 256, 8),
            "co": size(16, 256, 8),
            "layout": r.choice(["nhwc", "nchw"]),
            "epilogue": r.choice(["", "bias+relu"]),
        }
    if operator == "conv2d_transpose":
        s = r.choice([1, 2, 2])
        return {
            "h": size(4, 48),
            "w": size(4, 48),
            "ci": size(8, 256, 4),
            "co": size(4, 256, 4),
            "k": s + r.choice([0, 1, 2]),
            "s": s,
            "epilogue": act,
        }
    if operator == "conv1d":
        g = r.choice([1, 1, 1, 4])
        return {
            "length": size(50, 4000),
            "ci": g * size(8, 128, 4),
            "co": g * size(8, 128, 4),
            "k": r.choice([1, 3, 5, 9]),
            "s": r.choice([1, 2]),
            "d": 1,
            "g": g,
            "layout": r.choice(["ncw", "nwc"]),
            "epilogue": act,
        }
    if operator == "conv3d":
        return {
            "t": size(4, 16),
            "h": size(7, 28),
            "w": size(7, 28),
            "ci": size(4, 64, 4),
            "co": size(8, 64, 4),
            "kt": r.choice([1, 3]),
            "k": 3,
            "s": 1,
            "layout": r.choice(["ndhwc", "ncdhw"]),
            "epilogue": r.choice(["", "bias+relu"]),
        }
    if operator == "dense":
        dtype = r.choice(["float32", "float32", "int8"])
        return {
            "m": size(1, 512),
            "k": size(16, 4096, 4),
            "n": size(8, 4096, 4),
            "epilogue": act if dtype == "float32" else "",
            "dtype": dtype,
        }
    if operator == "batch_matmul":
        return {
            "b": size(1, 96),
            "m": size(4, 256),
            "k": size(16, 512),
            "n": size(4, 256),
            "transposed": r.choice([0, 1]),
            "epilogue": r.choice(["", "", "bias+gelu"]),
        }
    if operator == "softmax":
        return {"rows": size(1, 4096), "columns": size(8, 2048), "log": r.choice([0, 1]), "masked": r.choice([0, 1])}
    if operator in ("layer_norm", "rms_norm"):
        return {"rows": size(8, 2048), "columns": size(48, 2048)}
    if operator == "group_norm":
        groups = r.choice([8, 16, 32])
        c = groups * size(1, 8)
        return {"h": h, "w": h, "c": c, "groups": r.choice([groups, c]), "epilogue": r.choice(["", "relu", "silu"])}
    if operator == "batch_norm":
        return {"h": h, "w": h, "c": size(16, 256), "epilogue": r.choice(["relu", "residual+relu"])}
    if operator == "pool2d":
        return {
            "h": h,
            "w": h,
            "c": size(16, 512),
            "k": r.choice([2, 3, 5]),
            "s": r.choice([1, 2]),
            "kind": r.choice(["max", "avg"]),
            "layout": r.choice(["nhwc", "nchw"]),
        }
    if operator == "pool3d":
        return {
            "t": size(4, 16),
            "h": size(7, 40),
            "w": size(7, 40),
            "c": size(8, 64),
            "k": 3,
            "s": 2,
            "kind": r.choice(["max", "avg"]),
        }
    if operator == "global_pool":
        return {
            "h": h,
            "w": h,
            "c": size(32, 1024),
            "kind": r.choice(["max", "avg"]),
            "layout": r.choice(["nhwc", "nchw"]),
        }
    if operator == "adaptive_pool":
        out = r.choice([1, 2, 3, 6, 7])  # windows of one size
        return {"h": out * size(2, 12), "w": out * size(2, 12), "c": size(16, 512), "out": out}
    if operator == "resize":
        return {
            "h": size(4, 64),
            "w": size(4, 64),
            "c": size(3, 256),
            "factor": r.choice([2, 4]),
            "method": r.choice(["linear", "nearest_neighbor"]),
            "layout": r.choice(["nhwc", "nchw"]),
        }
    if operator == "reduction":
        return {
            "rows": size(4, 4096),
            "columns": size(16, 4096),
            "kind": r.choice(["sum", "max", "argmax", "mean", "square_sum", "variance"]),
            "axis": r.choice([0, 1]),
        }
    if operator == "embedding_bag":
        return {"vocabulary": size(500, 200000), "width": size(8, 256, 4), "bags": size(16, 2048), "each": size(1, 64)}
    if operator in ("lstm_cell", "gru_cell"):
        return {"rows": size(1, 32), "inputs": size(32, 512, 4), "width": size(32, 512, 4)}
    if operator == "elementwise":
        return {"rows": size(16, 8192), "columns": size(16, 1024), "epilogue": act or "gelu"}
    if operator == "transpose":
        shape = [size(4, 96) for _ in range(r.choice([2, 3, 4]))]
        order = list(range(len(shape)))
        r.shuffle(order)
        return {"shape": shape, "order": order if order != sorted(order) else order[::-1]}
    groups = r.choice([2, 4])
    return {"h": h, "w": h, "c": groups * size(8, 128), "groups": groups}


def training_tasks():
    """All that is measured for training, in the order in which it is measured: any beginning of it has all kinds."""
    generator = random.Random(SEED)
    held_out = set(layers_of(HELD_OUT))
    by_operator = collections.defaultdict(list)
    for name, task in sorted(layers_of(NETWORKS).items()):
        if name not in held_out:
            by_operator[task["operator"]].append(task)
    tasks = []
    for operator, (of_networks, drawn) in SHARES.items():
        chosen = spread(by_operator[operator], of_networks, generator)
        known = {key(task) for task in chosen} | held_out
        while drawn > 0:
            task = {"operator": operator, "arguments": draw(operator, generator), "networks": []}
            if is_sound(task) and key(task) not in known:
                known.add(key(task))
                chosen.append(task)
                drawn -= 1
        tasks += chosen
    generator.shuffle(tasks)
    return tasks


def kind(task):
    """What SEARCHED, and the families of pretrain.py, call it. A batched product is one of attention, and a product of one row with an
    activation one of squeeze-and-excite, whatever network it is from."""
    operator, a = task["operator"], task["arguments"]
    if operator == "batch_matmul":
        return "attention " + ("queries-keys" if "scaled" in a else "values")
    if operator == "elementwise":
        return "squeeze-and-excite gate" if a["epilogue"] == "gate" else operator
    if a.get("dtype") == "int8":
        return operator + " int8"
    if operator == "dense":  # of one row, and no classifier, which has a bias alone
        return (
            "squeeze-and-excite dense"
            if a["m"] == 1 and a["epilogue"] != "bias"
            else operator
            if a["m"] > 1
            else "classifier"
        )
    if operator == "conv2d":
        groups = a.get("g", 1)
        return operator + (
            " depthwise" if groups == a["ci"] else " grouped" if groups > 1 else " 1x1" if a["k"] == 1 else " kxk"
        )
    return operator


def inputs_of(task):
    """The shapes of a task's data and weights, of those operators that samples/ansor has as well; empty: of another one."""
    operator, a = task["operator"], task["arguments"]
    if operator == "conv2d" and a.get("layout") == "nhwc":
        return (1, a["h"], a["w"], a["ci"]), (a["k"], a["k"], a["ci"] // a.get("g", 1), a["co"])
    if operator == "conv2d":
        return (1, a["ci"], a["h"], a["w"]), (a["co"], a["ci"] // a.get("g", 1), a["k"], a["k"])
    if operator == "dense":
        return (a["m"], a["k"]), (a["n"], a["k"])
    if operator == "batch_matmul" and a.get("transposed", 1):
        return (a["b"], a["m"], a["k"]), (a["b"], a["n"], a["k"])
    return ((a["rows"], a["columns"]),) if operator == "softmax" else ()


def sampled_inputs():
    """What inputs_of gives, of the workloads of samples/ansor, which every model of ours learns from."""
    found = set()
    for line in lines_of(SAMPLES / "dags.jsonl.gz"):
        inputs = [stage for stage in json.loads(line)["stages"] if stage["kind"] == "placeholder"]  # TVM's word
        shapes = [tuple(stage["shape"]) for stage in inputs]
        found |= {tuple(shapes[:1]), tuple(shapes[:2])}
    return found


def searched_tasks():
    """{name: task} of what searches are compared on, drawn before any was run."""
    by_kind, found, sampled = collections.defaultdict(list), {}, sampled_inputs()
    for _, task in sorted(layers_of(HELD_OUT).items()):
        if inputs_of(task) not in sampled:
            by_kind[kind(task)].append(task)
    for name, count in SEARCHED.items():
        for number, task in enumerate(random.Random(SEED).sample(by_kind[name], count), 1):
            found["_".join([task["networks"][0], *name.split(), *([str(number)] if count > 1 else [])])] = task
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--held-out", action="store_true", help="the layers of networks that are never measured for training"
    )
    which.add_argument(
        "--searched",
        action="store_true",
        help="those of them that tools/tuner/tuner_search.py searches, with their names there",
    )
    arguments = parser.parse_args()
    if arguments.searched:
        tasks = [{"name": name, **task} for name, task in searched_tasks().items()]
    else:
        tasks = [task for _, task in sorted(layers_of(HELD_OUT).items())] if arguments.held_out else training_tasks()
    for task in tasks:
        print(json.dumps(task))
    counts = collections.Counter(task["operator"] for task in tasks)
    print(
        f"{len(tasks)} tasks: " + ", ".join(f"{count} {name}" for name, count in counts.most_common()), file=sys.stderr
    )


if __name__ == "__main__":
    main()
