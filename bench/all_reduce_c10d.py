#!/usr/bin/env python3
"""All-reduce (sum, float32) between two processes of this machine: Foretime's MPI communicator beside PyTorch's c10d with
its gloo backend.

  bench/all_reduce_c10d.py [--bench build/release/bench/all_reduce_bench] [--repeats 5]

Both sides are measured in the same way: a call counts as the slowest rank's time in the best of five rounds, after one
call to warm up, with one computing thread a process. The two sides take turns, `--repeats` times; the table has the
medians and the range of the ratio. Needs a Python with torch.distributed (Debian's python3-torch) and mpirun.
"""

import datetime
import multiprocessing
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

from common import MPI, options_of, run


SIZES = (1 << 10, 1 << 20, 64 << 20)  # bytes
ROUNDS = 5


def time_call(tensor, calls):
    """Seconds of one call, of the slowest rank, in the best round."""
    dist.all_reduce(tensor)
    best = float("inf")
    for _ in range(ROUNDS):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(tensor)
        seconds = torch.tensor([(time.perf_counter() - start) / calls], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        best = min(best, seconds.item())
    return best


def gloo_rank(rank, store, answers):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=120)
    )
    times = {size: time_call(torch.zeros(size // 4), max(1, min(200, (8 << 20) // size))) for size in SIZES}
    if rank == 0:
        answers.put(times)
    dist.destroy_process_group()


def gloo_times():
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=gloo_rank, args=(rank, f"{folder}/store", answers)) for rank in range(2)]
        for rank in ranks:
            rank.start()
        times = answers.get(timeout=300)
        for rank in ranks:
            rank.join()
    return times


def foretime_times(bench):
    printed = run(["mpirun", "-n", "2", bench, "--bandwidth"], {**MPI, "OMP_NUM_THREADS": "1"})
    rows = [line.split() for line in printed.splitlines()]
    return {int(row[0]): float(row[1]) * 1e-6 for row in rows if row and row[0].isdigit() and int(row[0]) in SIZES}


def main():
    parser = options_of(__doc__, repeats=5)  # how often the two sides take turns
    parser.add_argument(
        "--bench", default="build/release/bench/all_reduce_bench", help="the binary of all_reduce_bench"
    )
    options = parser.parse_args()
    turns = [(foretime_times(options.bench), gloo_times()) for _ in range(options.repeats)]
    print(f"{'bytes':>10} {'foretime us':>12} {'gloo us':>12} {'ratio':>8}  {'range of the ratio'}")
    for size in SIZES:
        ratios = [gloo[size] / own[size] for own, gloo in turns]
        own = statistics.median(own[size] for own, _ in turns)
        gloo = statistics.median(gloo[size] for _, gloo in turns)
        print(
            f"{size:>10} {own * 1e6:>12.1f} {gloo * 1e6:>12.1f} {statistics.median(ratios):>8.2f}"
            f"  {min(ratios):.2f} to {max(ratios):.2f}"
        )


if __name__ == "__main__":
    main()
