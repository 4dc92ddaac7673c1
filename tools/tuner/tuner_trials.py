"""The trials of tuner_search.py: their CSV, and the table that is made of it."""
import collections
import csv
import math
import os
import statistics
import sys

from tuner_tasks import DRAWN, TASKS

MODELS = ("xgb", "random", "foretime", "foretime+finetune")
FIELDS = (
    "task",
    "model",
    "seed",
    "trial",
    "seconds",
    "best_seconds",
    "verified_seconds",
    "search_seconds",
    "search_cpu_seconds",
)


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if None not in row.values()]


def append_rows(path, rows):
    """Appends a search's rows in one write."""
    new = not os.path.exists(path)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def replace_rows(path, rows):
    """Puts these rows in the place of all."""
    aside = path + ".new"
    with open(aside, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(aside, path)


def spread(values):
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def table(arguments):
    """Prints, for each model, the latency reached relative to the best known program: geometric mean over tasks, mean and
    deviation over seeds. Of the models of `compare` (None: all that the file has) and of `tasks`, on what all of them have searched.
    """
    reached, search_times = {}, {}
    best_known = collections.defaultdict(lambda: math.inf)
    for row in read_rows(arguments.out):
        cell = row["task"], row["model"], int(row["seed"])
        if row["verified_seconds"]:
            seconds = float(row["verified_seconds"])
            reached.setdefault(cell, {})[int(row["trial"])] = seconds
            best_known[row["task"]] = min(best_known[row["task"]], seconds)
        search_times[cell] = float(row["search_seconds"]), float(row["search_cpu_seconds"])
    if not reached:
        sys.exit(f"tuner_search.py: {arguments.out}: no complete search")
    there = [model for model in MODELS if any(cell[1] == model for cell in reached)]
    models = arguments.compare or there
    missing = [model for model in models if model not in there]
    if missing:
        sys.exit(f"tuner_search.py: --compare {' '.join(missing)}: {arguments.out} has searches of {', '.join(there)}")
    pairs = [
        (task, seed)
        for task, seed in sorted({(cell[0], cell[2]) for cell in reached})
        if task in arguments.tasks and all((task, model, seed) in reached for model in models)
    ]
    tasks = [task for task in [*DRAWN, *TASKS] if any(task == pair[0] for pair in pairs)]
    seeds = [seed for seed in sorted({pair[1] for pair in pairs}) if all((task, seed) in pairs for task in tasks)]
    if not seeds:
        sys.exit(f"tuner_search.py: {arguments.out}: no seed with all models on the same tasks")
    checkpoints = sorted(
        set.intersection(*(set(reached[task, model, seed]) for task in tasks for model in models for seed in seeds))
    )
    print(
        f"{len(tasks)} tasks, {len(seeds)} seeds; latency over that of the best known program, geometric mean over tasks ± deviation over seeds\n"
    )
    print("| model | " + " | ".join(f"{trial} trials" for trial in checkpoints) + " | search, s | of it CPU, s |")
    print("|---|" + "---|" * (len(checkpoints) + 2))
    for model in models:
        columns = [
            spread(
                [
                    statistics.geometric_mean(reached[task, model, seed][trial] / best_known[task] for task in tasks)
                    for seed in seeds
                ]
            )
            for trial in checkpoints
        ]
        times = [search_times[task, model, seed] for task in tasks for seed in seeds]
        print(
            f"| {model} | "
            + " | ".join(columns)
            + " | "
            + " | ".join(f"{statistics.fmean(part):.1f}" for part in zip(*times))
            + " |"
        )
    print(
        f"\nLatency after {checkpoints[-1]} trials, ms, mean over seeds\n\n| task | best known | "
        + " | ".join(models)
        + " |"
    )
    print("|---|---|" + "---|" * len(models))
    for task in tasks:
        means = [
            statistics.fmean(1e3 * reached[task, model, seed][checkpoints[-1]] for seed in seeds) for model in models
        ]
        print(f"| {task} | {1e3 * best_known[task]:.3f} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
