#!/usr/bin/env python3
"""What it takes to look at a queue with a large sweep: seconds and peak memory of `foretime status` and `foretime leaderboard`.

  bench/queue_views.py [--build build/release] [--trials 100000] [--runs 5]

Fills a redis-server of its own with a finished sweep (queue_cycles_bench), then runs each command so often and prints the medians as a
Markdown table. Memory is the peak resident set of the command, of which Redis is no part.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import common

COMMANDS = (("status",), ("status", "--json"), ("leaderboard",), ("leaderboard", "--json"))
AGENTS = 16


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=common.SOURCE / "build/release", type=pathlib.Path)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with common.redis_server() as socket, tempfile.TemporaryFile() as output:
        common.run([options.build / "bench/queue_cycles_bench", socket, options.trials, AGENTS])
        print("| command | trials | s | MB |\n|---|---|---|---|")
        for command in COMMANDS:
            seconds, memory = [], []
            for _ in range(options.runs):
                output.truncate(0)
                begin = time.monotonic()
                process = subprocess.Popen(
                    [options.build / "cli/foretime", *command, "--redis", f"unix://{socket}"], stdout=output
                )
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                seconds.append(time.monotonic() - begin)
                memory.append(used.ru_maxrss / 1e3)
                if process.returncode:
                    raise SystemExit(f"foretime {' '.join(command)} ended with {process.returncode}")
            print(
                f"| `{' '.join(command)}` | {options.trials:,} | {statistics.median(seconds):.2f} | {statistics.median(memory):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
