#!/usr/bin/env python3
"""Kills agents and Redis at random while they work through hundreds of short jobs, and then counts.

  tests/soak/soak.py --seconds 20 --jobs 120               the short form, which the tests run
  tests/soak/soak.py --seconds 3600 --jobs 2000 --agents 4 --bad-days

--bad-days adds what faults.py has: full disks, a Redis that is read-only or full or changes its password, clock jumps, a
broken node. Jobs then get three attempts, as users give them: no job may end badly through another fault than its own.

Chaos lasts for --seconds, or until each kind of bad day has come once; then everything is left in peace until each job has ended. Fails unless
  submitted = succeeded + failed + cancelled + dead, each as the job's own script says; one result a job, of the newest lease;
  fences strictly rising; no more jobs cancelled than were asked to be; no process is left behind.
"""
import argparse
import collections
import json
import random
import signal
import sys
import time

import faults
from harness import LIMIT, PREFIX, World


class Soak:
    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        # Attempts stay on the disk, about 30 KB each, ten a second: it is full when a fault fills it, and not before.
        self.world = World("always", options.bad_days, 64 + int(options.seconds / 2))
        self.agent_kills = self.redis_kills = self.cancels = self.submitted = self.batches = 0
        self.played = collections.Counter()
        self.faults = [kind(self.world, self.random) for kind in faults.ALL] if options.bad_days else []
        for fault in self.faults:
            if fault.unavailable:
                print(f"not played: {fault.name}: {fault.unavailable}", flush=True)
        self.faults = [fault for fault in self.faults if not fault.unavailable]
        self.next_faults = []  # each once, in an order of chance, before any comes again

    def start_agent(self):
        # Retries are quick, so that a run of minutes sees many of them.
        self.world.start_agent("--cpus", "4", "--lease-seconds", "2", "--retry-seconds", "0.1", "--drain-seconds", "20")

    def submit(self, jobs, first_seed):
        seeds = range(first_seed, first_seed + jobs)
        poison = [seed for seed in seeds if 88 <= seed % 100 <= 93]
        steady = [seed for seed in seeds if seed not in poison]
        attempts = 3 if self.options.bad_days else 100
        self.world.submit_sweep(f"steady-{first_seed}", steady, max_attempts=attempts)
        if poison:
            self.world.submit_sweep(f"poison-{first_seed}", poison, max_attempts=4)
        halving = [200000 + first_seed + 100 * i for i in range(max(8, jobs // 10))]
        self.world.submit_sweep(
            f"halving-{first_seed}",
            halving,
            max_attempts=attempts,
            early_terminate={"type": "hyperband", "min_iter": 1, "eta": 2},
        )
        self.submitted += jobs + len(halving)
        assert self.submitted == len(self.world.ids()), (self.submitted, len(self.world.ids()))

    def chaos(self):
        world, end = self.world, time.monotonic() + self.options.seconds
        redis_due = time.monotonic() + self.random.uniform(4, 8)
        limit = end + 200  # a busy machine needs longer to play each fault once
        while time.monotonic() < end or (len(self.played) < len(self.faults) and time.monotonic() < limit):
            world.collect_events()
            time.sleep(self.random.uniform(0.3, self.options.pause))
            if time.monotonic() > redis_due:
                world.kill_redis()
                self.redis_kills += 1
                time.sleep(self.random.uniform(0.0, 1.5))
                world.start_redis()
                redis_due = time.monotonic() + self.random.uniform(5, 15)
            elif self.faults and self.random.random() < 0.4:
                self.next_faults = self.next_faults or self.random.sample(self.faults, len(self.faults))
                self.play(self.next_faults.pop())
            elif self.random.random() < 0.1:
                identity = self.random.choice(self.waiting() or [None])
                if identity:
                    world.foretime("cancel", identity)
                    self.cancels += 1
            else:
                world.kill_agent(self.random.choice(world.agents))
                self.agent_kills += 1
                self.start_agent()
            if sum(world.states()[name] for name in ("waiting", "delayed", "active")) == 0:
                # All are done before the time is over.
                self.batches += 1
                self.submit(self.options.jobs, 1000 * self.batches)

    def play(self, fault):
        self.played[fault.name] += 1
        fault.begin()
        end = time.monotonic() + self.random.uniform(*fault.seconds)
        while time.monotonic() < end:
            time.sleep(0.3)
            if self.random.random() < 0.05:  # a fault seldom comes alone
                self.world.kill_agent(
                    self.random.choice(
                        [agent for agent in self.world.agents if agent is not getattr(fault, "agent", None)]
                    )
                )
                self.agent_kills += 1
                self.start_agent()
        fault.end()

    def waiting(self):
        return self.world.redis("ZRANGE", f"{PREFIX}:state:waiting", 0, 200)

    def settle(self):
        def idle():
            self.world.collect_events()
            states = self.world.states()
            return sum(states[name] for name in ("blocked", "waiting", "delayed", "held", "active")) == 0

        self.world.wait_for("all jobs end", idle)
        # One that was started a moment ago may not have come as far as to handle a signal.
        self.world.wait_for("all agents are known", self.world.agents_known)
        for agent in self.world.agents:
            agent.send_signal(signal.SIGTERM)
        for agent in list(self.world.agents):
            code = agent.wait(timeout=LIMIT)
            assert code == 0, f"a drained agent ended with {code}"
            self.world.agents.remove(agent)

    def check(self):
        world, problems = self.world, []
        left = world.marked_processes()
        if left:
            problems.append(f"processes left behind: {left}")
        states, ids = world.states(), world.ids()
        ended = sum(states[name] for name in ("succeeded", "failed", "cancelled", "dead"))
        if not (len(ids) == self.submitted == ended):
            problems.append(f"submitted {self.submitted}, known {len(ids)}, ended {ended}: {states}")
        if states["cancelled"] > self.cancels:
            problems.append(f"{states['cancelled']} jobs cancelled, and {self.cancels} were asked to be")
        duplicated = lost = attempts = 0
        for identity in ids:
            job = world.job(identity)
            kind = int(json.loads(job["parameters"])["trainer.seed"]) % 100
            attempts += int(job.get("fence") or 0)
            expected = "failed" if 80 <= kind <= 87 else "dead" if 88 <= kind <= 93 else "succeeded"
            if job["state"] not in (expected, "cancelled"):
                problems.append(f"{job['name']}: {job['state']}, expected {expected}: {job.get('error', '')[:300]}")
            results = int(job.get("results") or 0)
            duplicated += results > 1
            lost += job["state"] == "succeeded" and results == 0
        fences, finishes = collections.defaultdict(list), collections.Counter()
        world.collect_events()
        for event, job, fence in world.seen_events:
            if event == "claim":
                fences[job].append(fence)
            if event == "finish":
                finishes[job] += 1
        if not fences:
            problems.append("no claims in the event stream")
        for job, rising in fences.items():
            if any(b <= a for a, b in zip(rising, rising[1:])):
                problems.append(f"{job}: fences {rising}")
        duplicated += sum(count > 1 for count in finishes.values())
        witnesses = [
            json.loads(line) for file in (world.folder / "witness").iterdir() for line in file.read_text().splitlines()
        ]
        if not all(witness["clean"] for witness in witnesses):
            problems.append("a job saw the address of Redis")
        totals = world.hash("totals")
        print(
            json.dumps(
                {
                    "seconds": self.options.seconds,
                    "jobs": len(ids),
                    **{k: v for k, v in states.items() if v},
                    "attempts": attempts,
                    "attempts resumed from a checkpoint": sum(witness["from"] > 0 for witness in witnesses),
                    "kills of agents": self.agent_kills,
                    "kills of Redis": self.redis_kills,
                    "cancels": self.cancels,
                    **self.played,
                    "leases lost": int(totals.get("lost_leases", 0)),
                    "writes refused": int(totals.get("refused", 0)),
                    "lost": lost,
                    "duplicated": duplicated,
                },
                indent=1,
            )
        )
        if lost or duplicated:
            problems.append(f"{lost} results lost, {duplicated} duplicated")
        if self.agent_kills == 0 or self.redis_kills == 0:
            problems.append("nothing was killed")
        if len(self.played) < len(self.faults):
            problems.append(f"played only {list(self.played)}")
        return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20, help="of killing")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--pause", type=float, default=3, help="longest time between two kills, in seconds")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--bad-days", action="store_true", help="with full disks, a Redis in trouble, clock jumps, a broken node"
    )
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.randrange(1 << 30)
    print(f"seed {options.seed}", flush=True)
    soak = Soak(options)
    try:
        soak.submit(options.jobs, 0)
        for _ in range(options.agents):
            soak.start_agent()
        soak.chaos()
        soak.settle()
        problems = soak.check()
    finally:
        soak.world.close()
    print("\n".join(problems) or "all promises kept")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
