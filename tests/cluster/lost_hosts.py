#!/usr/bin/env python3
"""Hosts that are lost in mid-training: cut off, without power, or their processes killed.

  lost_hosts.py --times 50 --seed 1      needs root, iproute2, Open MPI and redis-server; FORETIME names the program

Each time an elastic job of the queue trains on a rank on each of three hosts (mpirun, namespaces of this machine), and one
host is lost at a random step. What must hold: the ranks that are left end within comm.timeout_seconds and name the host,
the job goes on by itself on what is left, from the last checkpoint that was there, and its losses are to the last bit
those of as many ranks on one host: three up to that checkpoint, then two (or three, where the host answers). Prints a
line for each, and the times in the end.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import sys
import tempfile
import time

from cluster import LIMIT, Cluster, missing, wait_until
from on_cluster import FORETIME, QUICK, SETTINGS

HOSTS = ["h2", "h3", "h4"]
HEAD = "h1"  # of Redis and the agent
EACH = 1  # ranks of a host
MOST = EACH * len(HOSTS)
TIMEOUT = 20  # comm.timeout_seconds; ranks of a busy machine need some seconds to start
STEPS, CHECKPOINT = 60, 5
MANNERS = ("cut", "crash", "kill")
# In place of ssh or ping, which these hosts lack: nobody listens on port 9, and a host that answers says so at once.
ANSWERS = "import socket, sys; s = socket.socket(); s.settimeout(5); sys.exit(s.connect_ex((sys.argv[1], 9)) != 111)"
TRAINING = {
    **QUICK,
    "trainer.steps": STEPS,
    "trainer.eval_every": STEPS,
    "checkpoint.every_steps": CHECKPOINT,
    "checkpoint.keep_last": 100,
    "comm.timeout_seconds": TIMEOUT,
}
# mpirun notices at once that ranks were killed, and ends the others itself: SIGKILL after twice its
# odls_base_sigkill_timeout, which Foretime's launcher sets to 5.
MPIRUN_ENDS = 10
# Ranks that wait see the end of the limit up to a step and an announcement later, and a busy machine adds to that.
SLACK = 8


class Lost(Exception):
    """What was promised did not hold."""


def words_of(settings):
    return [f"{name}={value}" for name, value in settings.items()]


def curve(*files):
    """Losses by step; of a step that was done again, the last."""
    losses = {}
    for file in files:
        text = file.read_text()
        for line in text[: text.rfind("\n") + 1].splitlines():  # one may be on its way
            record = json.loads(line)
            if record.get("kind") == "train":
                losses[record["step"]] = record["loss"]
    return losses


def last_step(file):
    return max(curve(file) if file.exists() else {}, default=0)


def until(what, condition):
    if not wait_until(condition, 0.02):
        raise Lost(f"{what}: not within {LIMIT} s")


class LostHosts:
    def __init__(self, folder, seed, slack=SLACK):
        """`slack`: seconds that ranks may end later than promised."""
        self.folder, self.random, self.number, self.slack = pathlib.Path(folder), random.Random(seed), 0, slack
        self.cluster = Cluster(folder, hosts=4, redis=True)
        self.work = self.folder / "work"
        self.agent, self.networks = None, {}

    def up(self):
        self.cluster.up()
        self.work.mkdir(exist_ok=True)
        self.agent_log = self.folder / "agent.log"
        with self.agent_log.open("w") as log:
            self.agent = self.cluster.start(
                HEAD,
                [
                    FORETIME,
                    "agent",
                    "--hosts",
                    ",".join(f"{host}:{EACH}" for host in HOSTS),
                    "--host-check",
                    f"{sys.executable} -c '{ANSWERS}' {{host}}",
                    "--runs",
                    "runs",
                    "--data-root",
                    "/",
                    "--retry-seconds",
                    "1",
                ],
                stdout=log,
                stderr=log,
            )

    def down(self):
        self.cluster.down()
        if self.agent:
            self.agent.wait()

    def says(self, *words):
        done = self.cluster.run(HEAD, [FORETIME, *words])
        if done.returncode:
            raise Lost(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self, job):
        return json.loads(self.says("status", job, "--json", "--runs", "runs"))

    def one_host(self, ranks=MOST, checkpoint=0):
        """Losses of a training on one host which, after a checkpoint of all ranks, goes on with so many."""
        name = f"one-host-{ranks}-{checkpoint}"
        if not (self.work / name).exists():
            before = self.work / f"one-host-{MOST}-0/checkpoints/step-{checkpoint:08}"
            done = self.cluster.run(
                HEAD,
                [
                    "mpirun",
                    "-n",
                    ranks,
                    FORETIME,
                    "train",
                    SETTINGS,
                    "--quiet",
                    f"run.directory={name}",
                    *words_of(TRAINING),
                    *([f"checkpoint.resume={before}"] if checkpoint else []),
                ],
            )
            if done.returncode:
                raise Lost(done.stdout + done.stderr)
        first = curve(self.work / f"one-host-{MOST}-0/metrics.jsonl")
        return {step: loss for step, loss in first.items() if step <= checkpoint} | curve(
            self.work / name / "metrics.jsonl"
        )

    def processes(self, folder):
        """Ranks of an attempt, by host."""
        if not self.networks:
            for host in HOSTS:
                holder = (self.folder / f"{host}.pid").read_text().strip()
                self.networks[self.cluster.run(None, ["readlink", f"/proc/{holder}/ns/net"]).stdout.strip()] = host
        found = {host: [] for host in HOSTS}
        for process in pathlib.Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_text().split("\0") if process.name.isdigit() else []
                if f"{folder}/config.yaml" in words and words[1] == "train":
                    found[self.networks[os.readlink(process / "ns/net")]].append(int(process.name))
            except (OSError, KeyError):
                pass
        return found

    def once(self, manner=None, host=None):
        """One loss; a dictionary of what was seen."""
        self.number += 1
        manner, host = manner or self.random.choice(MANNERS), host or self.random.choice(HOSTS)
        at = self.random.randrange(CHECKPOINT + 2, STEPS - CHECKPOINT)
        job = json.loads(
            self.says(
                "submit",
                SETTINGS,
                *words_of(TRAINING),
                f"comm.timeout_seconds={TIMEOUT + self.number * 1e-6:.6f}",
                "--ranks",
                f"{EACH}-{MOST}",
                "--json",
                "--runs",
                "runs",
            )
        )["jobs"][0]["id"]
        run = self.work / "runs" / job
        first, second = run / "attempt-1", run / "attempt-2"
        until("the first attempt", lambda: last_step(first / "metrics.jsonl") >= at)
        before = self.status(job)
        if before["attempt_ranks"] != MOST:
            raise Lost(f"{job}: {before['attempt_ranks']} ranks, expected {MOST}")
        left = [other for other in HOSTS if other != host]
        started = time.monotonic()
        if manner == "kill":
            for process in self.processes(first)[host]:
                os.kill(process, 9)
        else:
            getattr(self.cluster, manner)(host)
        lost_at = last_step(first / "metrics.jsonl")

        def ended():
            running = self.processes(first)
            return not any(running[other] for other in left)

        until(f"{job}: the ranks that are left end ({manner} {host})", ended)
        took = time.monotonic() - started
        until("the next attempt", second.exists)
        again = time.monotonic() - started
        output = (first / "output.log").read_text()
        named = re.search(
            rf"late: .*rank \d on {host} \(no answer\)|rank \d on {host} ended|on node {host} exited on signal 9|on node {host}$|lost {host}, which does not answer",
            output,
            re.MULTILINE,
        )
        until("a step of the next attempt", lambda: last_step(second / "metrics.jsonl") > 0)
        went_on = time.monotonic() - started
        if manner != "kill":
            self.cluster.mend(host)
        until("the end of the job", lambda: self.status(job)["state"] in ("succeeded", "failed", "dead"))
        record = self.status(job)
        checkpoints = [
            int(folder.name[5:])
            for folder in (first / "checkpoints").glob("step-*")
            if (folder / "manifest.json").exists()
        ]
        resumed = min(curve(second / "metrics.jsonl"))
        result = {
            "job": job,
            "manner": manner,
            "host": host,
            "step": lost_at,
            "ended": took,
            "again": again,
            "went_on": went_on,
            "lost": max(last_step(first / "metrics.jsonl") - resumed + 1, 0),
            "ranks": record["attempt_ranks"],
            "named": named.group(0) if named else "",
        }
        wrong = []
        if record["state"] != "succeeded":
            wrong.append(f"{record['state']}: {record['error']}")
        if record["fence"] != 2 or record["failures"] != (1 if manner == "kill" else 0):
            wrong.append(f"{record['fence']} attempts, {record['failures']} of them failures of its own")
        if record["attempt_ranks"] != (MOST if manner == "kill" else MOST - EACH):
            wrong.append(f"went on with {record['attempt_ranks']} ranks")
        if not named:
            wrong.append(f"{host} is not named: {output[-2000:]}")
        if resumed != max(checkpoints, default=0) + 1:
            wrong.append(f"went on at step {resumed}, and the last checkpoint is of {max(checkpoints, default=0)}")
        if took > (MPIRUN_ENDS if manner == "kill" else TIMEOUT) + self.slack:
            wrong.append(f"ended after {took:.1f} s")
        if not wrong:
            losses = curve(first / "metrics.jsonl", second / "metrics.jsonl")
            undisturbed, same = self.one_host(), self.one_host(record["attempt_ranks"], resumed - 1)
            differ = [step for step in same if losses.get(step) != same[step]]
            if differ or len(losses) != STEPS:
                wrong.append(f"{len(losses)} losses, of which those of steps {differ[:10]} are not those of one host")
            # Sums of other numbers of ranks are rounded otherwise, which grows with the steps; the batches are the
            # same.
            soon = [step for step in range(resumed, min(resumed + 3, STEPS + 1))]
            if any(abs(losses[step] / undisturbed[step] - 1) > 1e-3 for step in soon):
                wrong.append(
                    f"on {record['attempt_ranks']} ranks losses {[losses[step] for step in soon]}, on all {[undisturbed[step] for step in soon]}"
                )
        if wrong:
            raise Lost(f"{manner} {host} at step {lost_at}, job {job}: " + "; ".join(wrong))
        if manner != "kill":
            until(
                f"{host} answers again",
                lambda: self.agent_log.read_text().count(f"host {host} answers again")
                == self.agent_log.read_text().count(f"host {host} does not answer"),
            )
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="kept afterwards; default: a temporary one")
    options = parser.parse_args()
    if why := missing(redis=True):
        sys.exit(f"lost_hosts.py: {why}")
    folder = options.folder or tempfile.mkdtemp(prefix="foretime-lost-", dir="/var/tmp")
    lost = LostHosts(folder, options.seed)
    seen, failures = [], []
    try:
        lost.up()
        for number in range(1, options.times + 1):
            try:
                result = lost.once()
                seen.append(result)
                print(
                    f"{number}: {result['manner']} {result['host']} at step {result['step']}: ended after {result['ended']:.1f} s, next attempt after "
                    f"{result['again']:.1f} s, first step {result['went_on']:.1f} s, {result['lost']} steps done again on {result['ranks']} ranks; "
                    f"{result['named']}",
                    flush=True,
                )
            except Lost as error:
                failures.append(str(error))
                print(f"{number}: FAILED: {error}", flush=True)
                break
    finally:
        lost.down()
        if not options.folder and not failures:
            shutil.rmtree(folder, ignore_errors=True)
    for name, what in (
        ("ended", "until the ranks that were left had ended"),
        ("again", "until the next attempt"),
        ("went_on", "until its first step"),
    ):
        if values := [result[name] for result in seen]:
            print(f"{what}: median {statistics.median(values):.1f} s, most {max(values):.1f} s")
    if seen:
        print(
            f"steps done again: median {statistics.median(r['lost'] for r in seen)}, most {max(r['lost'] for r in seen)} (a checkpoint every {CHECKPOINT}), "
            "none before the last checkpoint; all losses are those of one host"
        )
    print(f"{len(seen)} of {options.times} as promised")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
