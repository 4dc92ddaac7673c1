"""Workloads of tuning records: their lines, and what they compute."""
import collections
import gzip
import json
import re


def lines_of(path, wanted=None):
    """The lines of a gzip file; of these only those with the wanted numbers, from 0."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line for number, line in enumerate(file) if wanted is None or number in wanted]


def workload_of(line):
    """The workload key of a record of auto_scheduler."""
    return json.loads(line)["i"][0][0]


def by_workload(lines):
    """{workload key: its records}, in the order of the keys."""
    found = collections.defaultdict(list)
    for line in lines:
        found[workload_of(line)].append(line)
    return dict(sorted(found.items()))


def computation(dag):
    """What a compute DAG (a line of dags.jsonl.gz, read) computes, whatever its tensors and loops are called: two workloads with other
    keys may compute the same."""
    tensors, stages = {}, []
    for stage in dag["stages"]:
        tensors[stage["name"]] = f"t{len(tensors)}"
        loops = [*stage.get("axes", []), *stage.get("reduce_axes", [])]
        names = tensors | {name: f"i{number}" for number, (name, _) in enumerate(loops)}
        body = re.sub(r"[A-Za-z_][\w.]*", lambda word: names.get(word.group(), word.group()), stage.get("body") or "")
        extents = [extent for _, extent in loops]
        stages.append([stage["kind"], stage["dtype"], stage["shape"], extents, stage.get("combiner"), body])
    return json.dumps(stages)


def computations(*files):
    """{workload key: computation} of files of compute DAGs."""
    dags = (json.loads(line) for file in files for line in lines_of(file))
    return {dag["workload_key"]: computation(dag) for dag in dags}
