#!/usr/bin/env python3
"""What a search would have found that measures the k schedules which a model ranks first.

  bench/studies/simulated_search.py NAME=RANKINGS.csv… [--set test] [--picks 1,2,4,8,16,32,64] [--budget 0.95]

RANKINGS.csv is what training runs, baselines and `foretime rank` leave: a row for each measured schedule of each workload,
with the model's score. The schedules were measured once, long before; nothing is compiled. For each workload a search that
follows the model has, after k measurements, the best of the first k of its ranking. Printed are the best run time of the
workload over the one found, averaged over workloads (1 is perfect), and how many measurements it takes, in the mean over
workloads, until the one found is within `--budget` of the best. Several files of one NAME are seeds: mean ± deviation.
Order without a model is not drawn but computed: the expectation over all orders.
"""

import pathlib
import collections
import csv
import math
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from common import options_of  # noqa: E402


def read(path, wanted):
    """{group: run times in the order of the ranking}."""
    groups = collections.defaultdict(list)
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row.get("set", wanted) == wanted and row.get("runtime"):
                groups[row["group"]].append((float(row["score"]), int(row["candidate"]), float(row["runtime"])))
    # Equal scores in the order of the candidates: no model knows more than that.
    return {group: [runtime for _, _, runtime in sorted(rows)] for group, rows in groups.items()}


def found(runtimes, picks):
    return [min(runtimes) / min(runtimes[:k]) for k in picks]


def needed(runtimes, budget):
    best = min(runtimes) / budget
    return next(k for k, runtime in enumerate(runtimes, 1) if runtime <= best)


def found_without_model(runtimes, picks):
    """Expectation of best / min of k drawn without replacement: the smallest is the i-th with C(n-i, k-1) / C(n, k)."""
    ordered, n, result = sorted(runtimes), len(runtimes), []
    for k in picks:
        k = min(k, n)
        all_draws = math.comb(n, k)
        result.append(sum(ordered[0] / t * (math.comb(n - 1 - i, k - 1) / all_draws) for i, t in enumerate(ordered)))
    return result


def needed_without_model(runtimes, budget):
    good = sum(runtime <= min(runtimes) / budget for runtime in runtimes)
    return (len(runtimes) + 1) / (good + 1)


def main(arguments):
    parser = options_of(__doc__)
    parser.add_argument("rankings", nargs="+", metavar="NAME=RANKINGS.csv")
    parser.add_argument("--set", default="test")
    parser.add_argument("--picks", default="1,2,4,8,16,32,64")
    parser.add_argument("--budget", type=float, default=0.95)
    options = parser.parse_args(arguments)
    picks = [int(k) for k in options.picks.split(",")]
    files, groups = collections.defaultdict(list), None
    for item in options.rankings:
        name, separator, path = item.partition("=")
        if not separator:
            parser.error(f"'{item}': expected NAME=RANKINGS.csv")
        files[name].append(read(path, options.set))
        shape = {group: sorted(runtimes) for group, runtimes in files[name][-1].items()}
        if groups is not None and shape != groups:
            raise SystemExit(f"{path}: other workloads or run times than the files before it, set {options.set}")
        groups = shape
    if not groups:
        raise SystemExit(f"no measured schedules of set {options.set}")

    def mean(rows):
        return [statistics.fmean(column) for column in zip(*rows)]

    print(f"{len(groups)} workloads, {sum(map(len, groups.values()))} schedules")
    print("| | " + " | ".join(f"best of {k}" for k in picks) + f" | trials to {options.budget:.0%} |")
    print("|---|" + "---|" * (len(picks) + 1))
    none = mean([found_without_model(r, picks) + [needed_without_model(r, options.budget)] for r in groups.values()])
    print("| no model | " + " | ".join(f"{x:.3f}" for x in none[:-1]) + f" | {none[-1]:.1f} |")
    for name, seeds in files.items():
        rows = [mean([found(r, picks) + [needed(r, options.budget)] for r in seed.values()]) for seed in seeds]
        cells = []
        for i, column in enumerate(zip(*rows)):
            digits = 1 if i == len(picks) else 3
            text = f"{statistics.fmean(column):.{digits}f}"
            cells.append(text + (f" ± {statistics.stdev(column):.{digits}f}" if len(column) > 1 else ""))
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
