#!/usr/bin/env python3
"""Prepares the tuning records that the artifact of Roller (Zhu et al., OSDI 2022) holds for `foretime data`.

    tools/data/roller_records.py ARTIFACTS OUT

ARTIFACTS is the folder `artifacts` of a checkout. For each GPU, OUT gets GPU.jsonl, its records network by network, and
GPU.networks.json, which lines are of which network (`pack-records --networks`). Their compute DAGs, as TVM 0.8's topi
defines the operators, are in samples/roller/dags.jsonl.gz.

Where a convolution was measured with an addition or a ReLU after it, only the file's name says so: its records get keys
of their own. The GPUs are those of the paper: V100 (operators, and the networks' records), K80 (table 3), MI50 (table
4). Records name the first two alike.
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


if __name__ == "__main__":
    main()
