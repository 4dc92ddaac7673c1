#!/usr/bin/env python3
"""Full cycles of the queue (add, claim, complete) a second, beside BullMQ on the same Redis in the same run.

  npm install --prefix PEER bullmq ioredis
  bench/queue_cycles.py --build build/release --peer PEER [--jobs 100 10000 1000000] [--agents 1 16 1000] [--rounds 2]

A redis-server of its own on a Unix socket, with long values in listpacks as the embedded one has them; both sides take
turns on it, and the best round of each counts. An agent is one connection of ours, and one worker of BullMQ. The
clients of either side leave the first CPU to Redis, as where agents run on other machines; --share lets all use all.
Prints a Markdown table.
"""
import argparse
import os
import pathlib
import time

import common


def cycles(command, redis, **options):
    """Jobs a second over adding and work, after the memory of the other side is gone."""
    redis("flushall")
    redis("bgrewriteaof")
    while "aof_rewrite_in_progress:1" in redis("info", "persistence"):
        time.sleep(0.05)
    seconds = common.last_json(common.run(command, **options))
    return seconds["add"], seconds["work"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=common.SOURCE / "build/release", type=pathlib.Path)
    parser.add_argument("--peer", required=True, type=pathlib.Path, help="folder with node_modules/bullmq")
    parser.add_argument("--jobs", nargs="+", type=int, default=[100, 10_000, 1_000_000])
    parser.add_argument("--agents", nargs="+", type=int, default=[1, 16, 1000])
    parser.add_argument("--appendfsync", nargs="+", default=["always", "everysec"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--share", action="store_true", help="Redis and clients share all CPUs")
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    apart = len(cpus) > 1 and not options.share
    print(
        "| appendfsync | jobs | agents | ours: add/s | claim and complete/s | cycles/s | BullMQ: add/s | claim and complete/s | "
        "cycles/s | ratio of cycles |\n|---|---|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for appendfsync in options.appendfsync:
        os.sched_setaffinity(0, cpus)
        with common.redis_server(appendfsync) as socket:
            if apart:
                os.sched_setaffinity(0, cpus[1:])  # of the clients, which inherit it

            def redis(*words):
                return common.run(["redis-cli", "-s", socket, *words])

            for jobs in options.jobs:
                for agents in options.agents:
                    ours, theirs = [], []
                    for _ in range(options.rounds):
                        ours.append(cycles([options.build / "bench/queue_cycles_bench", socket, jobs, agents], redis))
                        theirs.append(
                            cycles(
                                ["node", common.SOURCE / "bench/queue_peer.mjs", socket, jobs, agents],
                                redis,
                                cwd=options.peer,
                            )
                        )
                    row, rates = [], []
                    for rounds in (ours, theirs):
                        add, work = min(rounds, key=sum)
                        rates.append(jobs / (add + work))
                        row += [f"{jobs / add:.0f}", f"{jobs / work:.0f}", f"{rates[-1]:.0f}"]
                    print(
                        f"| {appendfsync} | {jobs} | {agents} | {' | '.join(row)} | {rates[0] / rates[1]:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
