#!/usr/bin/env python3
"""Prepares the tuning records that the artifact of Roller (Zhu et al., OSDI 2022) holds for `foretime data`.

    tools/data/roller_records.py ARTIFACTS OUT

ARTIFACTS is the folder `artifacts` of a checkout. For each GPU, OUT gets GPU.jsonl, its records network by network, and
GPU.networks.json, which lines are of which network (`pack-records --networks`); and dags.txt with the compute DAGs of
all workloads as TVM prints them, for `foretime data dags`.

The records say what was measured by a function's name and arguments, such as ["conv2d_layer", 128, 64, 56, 56, 256, 1,
1, 1, "SAME"]; what these compute is written here as TVM 0.8's topi defines its operators. Where a convolution was
measured with an addition or a ReLU after it, only the file's name says so: its records get keys of their own. The GPUs are those of the paper: V100 (operators, and
the networks' records), K80 (table 3), MI50 (table 4). Records name the first two alike.
"""
import argparse
import json
import pathlib
import sys

FOLDERS = {
    "v100": ["microbenchmark/tvm/ansor", "microbenchmark/tvm/e2e/ansor_log", "microbenchmark/tvm/scale_out"],
    "k80": ["Table3/tvm/ansor"],
    "mi50": ["Table4/tvm/ansor"],
    "sm_75": ["microbenchmark/tvm/*.log"],  # of a copy of the artifact: a GPU of this architecture
}
SCRIPTS = "microbenchmark/tvm/script/e2e"


def padded(extent, kernel, stride, padding):
    """Padding before, extent with padding, extent of the output of a window."""
    if padding == "SAME":
        before, all_of_it = kernel // 2, kernel - 1
    else:
        before = 0 if padding == "VALID" else padding
        all_of_it = 2 * before
    extent += all_of_it
    return before, extent, (extent - kernel) // stride + 1


def shifted(name, by, sign="-"):
    return f"({name} {sign} {by})" if by else name


def strided(name, stride, inner):
    return f"(({name}*{stride}) + {inner})" if stride > 1 else f"({name} + {inner})"


def pad_stage(name, axes, source, height, width, top, left, value):
    """A stage that pads the last two of four dimensions."""
    a, b, y, x = axes
    read = f"{source}[{a}, {b}, {shifted(y, top)}, {shifted(x, left)}]"
    conditions = []
    for axis, before, extent in ((y, top, height), (x, left, width)):
        if before:
            conditions += [f"({axis} >= {before})", f"({axis} < {extent + before})"]
    if not conditions:
        return f"{name}({a}, {b}, {y}, {x}) = {read}"
    both = conditions[0]
    for condition in conditions[1:]:
        both = f"({both} && {condition})"
    return f"{name}({a}, {b}, {y}, {x}) = tir.if_then_else({both}, {read}, {value})"


def convolution(n, ci, h, w, co, kh, kw, stride, padding):
    top, _, _ = padded(h, kh, stride, padding)
    left, _, _ = padded(w, kw, stride, padding)
    pad = pad_stage("pad_temp", ("i0", "i1", "i2", "i3"), "input0", h, w, top, left, "0f")
    y, x = strided("yy", stride, "ry"), strided("xx", stride, "rx")
    return [], [f"input0 = PLACEHOLDER [{n}, {ci}, {h}, {w}]", pad, f"input1 = PLACEHOLDER [{co}, {ci}, {kh}, {kw}]",
                f"compute(nn, ff, yy, xx) += (pad_temp[nn, rc, {y}, {x}]*input1[ff, rc, ry, rx])"], \
        ("compute", "nn ff yy xx", [n, co, padded(h, kh, stride, padding)[2], padded(w, kw, stride, padding)[2]])


def depthwise(n, c, h, w, kh, kw, stride, padding):
    top, _, out_h = padded(h, kh, stride, padding)
    left, _, out_w = padded(w, kw, stride, padding)
    pad = pad_stage("PaddedInput", ("i0", "i1", "i2", "i3"), "data", h, w, top, left, "0f")
    y, x = strided("i", stride, "di"), strided("j", stride, "dj")
    return [], [f"data = PLACEHOLDER [{n}, {c}, {h}, {w}]", pad, f"kernel = PLACEHOLDER [{c}, 1, {kh}, {kw}]",
                f"DepthwiseConv2d(b, c, i, j) += (PaddedInput[b, c, {y}, {x}]*kernel[c, 0, di, dj])"], \
        ("DepthwiseConv2d", "b c i j", [n, c, out_h, out_w])


def pooling(kind, n, c, h, w, kh, kw, stride, padding):
    top, _, out_h = padded(h, kh, stride, padding)
    left, _, out_w = padded(w, kw, stride, padding)
    axes = ("ax0", "ax1", "ax2", "ax3")
    lines, source = [f"data = PLACEHOLDER [{n}, {c}, {h}, {w}]"], "data"
    lowest = "-3.40282e+38f" if kind == "max" else "0f"
    if padding != "VALID" and (kh > 1 or kw > 1):
        lines.append(pad_stage("pad_temp", axes, "data", h, w, top, left, lowest))
        source = "pad_temp"
    y, x = strided("ax2", stride, "rv0"), strided("ax3", stride, "rv1")
    of = ", ".join(axes)
    name = f"pool_{'max' if kind == 'max' else 'sum'}"
    lines.append(f"{name}({of}) {'max=' if kind == 'max' else '+='} {source}[ax0, ax1, {y}, {x}]")
    if kind == "avg":
        lines.append(f"pool_avg({of}) = ({name}[{of}]/{kh * kw}f)")
    return [f"# window: {name}.rv0={kh} {name}.rv1={kw}"], lines, (name, " ".join(axes), [n, c, out_h, out_w])


def matmul(rows, inner, columns):
    return [], [f"A = PLACEHOLDER [{rows}, {inner}]", f"B = PLACEHOLDER [{inner}, {columns}]",
                "compute(x, y) += (A[x, k]*B[k, y])"], ("compute", "x y", [rows, columns])


def batch_matmul(batch, heads, rows, inner, columns):
    return [], [f"A = PLACEHOLDER [{batch * heads}, {rows}, {inner}]",
                f"B = PLACEHOLDER [{batch * heads}, {inner}, {columns}]",
                "T_batch_matmul_NN(b, i, j) += (A[b, i, k]*B[b, k, j])"], \
        ("T_batch_matmul_NN", "b i j", [batch * heads, rows, columns])


def relu(*shape):
    axes = ", ".join(f"i{i}" for i in range(len(shape)))
    return [], [f"data = PLACEHOLDER [{', '.join(map(str, shape))}]", f"compute({axes}) = max(data[{axes}], 0f)"], \
        ("compute", axes.replace(",", ""), list(shape))


def reduction(shape, axis, keep):
    kept = [f"ax{i}" for i in range(len(shape) - 1)]
    read = kept[:axis] + [f"k{axis}"] + kept[axis:]
    extents = shape[:axis] + shape[axis + 1:]
    assert not keep
    return [], [f"data = PLACEHOLDER [{', '.join(map(str, shape))}]",
                f"data_red({', '.join(kept)}) += data[{', '.join(read)}]"], ("data_red", " ".join(kept), extents)


def convolution_add(*arguments, last="T_add"):
    """A convolution, and another tensor added to it."""
    notes, lines, (stage, axes, shape) = convolution(*arguments)
    of = ", ".join(f"ax{i}" for i in range(4))
    lines += [f"input2 = PLACEHOLDER [{', '.join(map(str, shape))}]",
              f"{last}({of}) = ({stage}[{of}] + input2[{of}])"]
    return notes, lines, (last, of.replace(",", ""), shape)


def convolution_add_relu(*arguments):
    notes, lines, (stage, _, shape) = convolution_add(*arguments)
    of = ", ".join(f"i{i}" for i in range(4))
    return notes, lines + [f"relu({of}) = max({stage}[{of}], 0f)"], ("relu", of.replace(",", ""), shape)


WORKLOADS = {"conv2d_layer": convolution, "conv2d_add_layer": convolution_add,
             "conv2d_add_relu_layer": convolution_add_relu, "depthwise_conv2d_layer": depthwise, "pool_layer": pooling,
             "matmul_layer": matmul, "batch_matmul_layer": batch_matmul, "relu_layer": relu,
             "reduction_layer": reduction}


def dag_text(key):
    name, *arguments = json.loads(key)
    notes, lines, (stage, axes, extents) = WORKLOADS[name](*arguments)
    lengths = " ".join(f"{stage}.{axis}={extent}" for axis, extent in zip(axes.split(), extents))
    return "\n".join([key, *notes, f"# output: {lengths}", *lines]) + "\n"


def workload_of(words):
    """The workload key of a line of a network's script: what the tuning program makes of its arguments."""
    program, *rest = words
    numbers = [int(word) if word.isdigit() else word for word in rest if not word.startswith("$")]
    if program == "conv2d_tuning.py":
        n, ci, h, w, co, kh, kw, stride, _, padding = numbers[:10]
        return ("conv2d_layer", n, ci, h, w, co, kh, kw, stride, padding)
    if program == "depthwise_tuning.py":
        n, c, h, w, kh, kw, stride, _, padding = numbers[:9]
        return ("depthwise_conv2d_layer", n, c, h, w, kh, kw, stride, padding)
    if program == "pooling_tuning.py":
        kind, n, c, h, w, k, stride, padding = numbers[:8]
        return ("pool_layer", kind, n, c, h, w, k, k, stride, padding)
    if program == "matmul_tuning.py":
        return ("matmul_layer", *numbers[:3])
    if program == "batch_matmul_tuning.py":
        return ("batch_matmul_layer", *numbers[:5])
    return None


def simple(key):
    """A workload with its padding left out, which the artifact writes as a word or as a number."""
    parts = list(key)
    if parts[0].startswith("conv2d"):
        parts[0] = "conv2d_layer"
    if parts[0] in ("conv2d_layer", "depthwise_conv2d_layer", "pool_layer"):
        parts = parts[:-1]
    return tuple(str(part) for part in parts)


def networks_of(artifacts):
    networks = {}
    for script in sorted((artifacts / SCRIPTS).glob("bench0_*.sh")):
        for line in script.read_text().splitlines():
            words = line.split()
            if len(words) < 3 or words[0] != "python3":
                continue
            workload = workload_of([words[1].split("/")[-1], *words[2:]])
            if workload:
                networks.setdefault(simple(workload), script.stem.removeprefix("bench0_"))
    return networks


def with_operators(key, file):
    """The key of a convolution with the operators after it, which the end of the file's name says."""
    for words in ("add_relu", "add"):
        if key.startswith('["conv2d_layer"') and file.stem.endswith("_" + words):
            return key.replace("conv2d_layer", f"conv2d_{words}_layer")
    return key


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    networks = networks_of(args.artifacts)
    if not networks:
        sys.exit(f"{args.artifacts / SCRIPTS}: no bench0_*.sh, expected the artifact's scripts")
    args.out.mkdir(parents=True, exist_ok=True)
    keys = set()
    for gpu, folders in FOLDERS.items():
        seen, by_network = set(), {}
        for folder in folders:
            pattern = folder if folder.endswith(".log") else folder + "/**/*.log"
            for file in sorted(args.artifacts.glob(pattern)):
                for line in file.read_text(errors="replace").splitlines():
                    if not line.startswith('{"i"'):
                        continue
                    record = json.loads(line)
                    key, target = record["i"][0][:2]
                    record["i"][0][0] = key = with_operators(key, file)
                    schedule = json.dumps(record["i"])
                    if not isinstance(target, str) or schedule in seen:
                        continue
                    seen.add(schedule)
                    keys.add(key)
                    network = networks.get(simple(json.loads(key)), "other")
                    by_network.setdefault(network, []).append(json.dumps(record))
        with open(args.out / f"{gpu}.jsonl", "w") as out:
            parts, first = [], 0
            for network, lines in sorted(by_network.items()):
                out.write("".join(line + "\n" for line in lines))
                parts.append({"network": network, "first_line": first, "lines": len(lines)})
                first += len(lines)
        (args.out / f"{gpu}.networks.json").write_text(json.dumps(parts, indent=1) + "\n")
        print(gpu, *(f"{part['network']} {part['lines']}" for part in parts))
    (args.out / "dags.txt").write_text("\n".join(dag_text(key) for key in sorted(keys)))


if __name__ == "__main__":
    main()
