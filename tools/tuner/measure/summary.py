#!/usr/bin/env python3
"""What folders of measured programs hold: the table of measured/README.md, and what a training takes of them.

  tools/tuner/measure/summary.py measured/*

Needs no TVM.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from programs import spread_of  # noqa: E402
from tasks import training_tasks  # noqa: E402
from workloads import computations, lines_of, workload_of  # noqa: E402


PAUSE = 900  # seconds without a reference, after which nothing was measured


def drift(path):
    """Of the reference's run times: the largest over the least, less 1; the number of measurements; the hours in which they were taken."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    seconds, times = ([line[name] for line in lines] for name in ("dense_seconds", "time"))
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    return max(seconds) / min(seconds) - 1, len(lines), sum(gap for gap in gaps if gap < PAUSE) / 3600


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "folders",
        nargs="+",
        type=pathlib.Path,
        help="with records.jsonl.gz, journal.jsonl.gz, dags.jsonl.gz, drift.jsonl",
    )
    folders = [folder for folder in parser.parse_args().folders if (folder / "records.jsonl.gz").exists()]
    measured, groups, parts = set(), collections.Counter(), collections.Counter()
    print(
        "| machine | tasks | programs | failed | spread of the mean, median and 90th percentile | drift of the reference |\n|---|---|---|---|---|---|"
    )
    for folder in folders:
        records = lines_of(folder / "records.jsonl.gz")
        journal = [json.loads(line) for line in lines_of(folder / "journal.jsonl.gz")]
        computed = computations(folder / "dags.jsonl.gz")
        results = [json.loads(line)["r"] for line in records]
        spreads = sorted(spread_of(costs) for costs, error, *_ in results if error == 0 and len(costs) > 1)
        failed, tasks = sum(error != 0 for _, error, *_ in results), {entry["task"] for entry in journal}
        share, count, hours = drift(folder / "drift.jsonl")
        print(
            f"| `{folder.name}` | {len(tasks)} | {len(records):,} | {failed} | {statistics.median(spreads):.2%}, "
            f"{spreads[len(spreads) * 9 // 10]:.2%} | at most {share:.1%} over {count} in {hours:.1f} h |"
        )
        measured |= tasks
        parts.update(entry["part"] for entry in journal)
        groups.update((folder.name, computed[workload_of(line)]) for line in records)
    trained = {group: count for group, count in groups.items() if count > 1}
    print(
        f"\n{len(measured)} of the {len(training_tasks())} tasks, {sum(groups.values()):,} programs: "
        + ", ".join(f"{count:,} {part}" for part, count in sorted(parts.items()))
    )
    print(
        f"a training takes {sum(trained.values()):,} programs of {len({computed for _, computed in trained})} workloads: those of which a "
        f"machine has two or more; {len(trained)} groups of a workload on a machine"
    )


if __name__ == "__main__":
    main()
