"""The job queue: sweeps and jobs from Python, by the program's own commands and their JSON."""
from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import programs
from .library import StrPath
from .programs import Settings
from .runs import Run
from .table import Table

ENDED = ("succeeded", "failed", "cancelled", "dead")


class Queue:
    """A queue of jobs on Redis.

    `url`: redis://host[:port][/database] or unix:///path; None: what FORETIME_REDIS says, else a Redis that foretime runs itself inside
    `runs`, the folder of all runs of jobs (default: FORETIME_RUNS, else "runs"). `prefix`: keeps several queues of one Redis apart. User
    and password come from the environment (FORETIME_REDIS_USER, FORETIME_REDIS_PASSWORD). Every call runs `foretime`; CommandError where
    that fails. What calls return is the JSON of the command of the same name (docs/reference/jobs.md explains the fields).
    """

    def __init__(self, url: Optional[str] = None, runs: Optional[StrPath] = None, prefix: Optional[str] = None) -> None:
        self._program = programs.find_program()
        self._where = [
            word
            for name, value in (("--redis", url), ("--runs", runs), ("--prefix", prefix))
            if value is not None
            for word in (name, os.fspath(value))
        ]
        self._runs = os.fspath(runs) if runs is not None else os.environ.get("FORETIME_RUNS", "runs")

    def __repr__(self) -> str:
        return f"<foretime.Queue {' '.join(self._where) or self._runs}>"

    def _call(self, *words: str) -> str:
        return programs.run(*words, *self._where, program=self._program)

    def _json(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._call(*words, "--json"))
        return answer

    def submit(
        self,
        sweep: Settings,
        overrides: Optional[Mapping[str, Any]] = None,
        *,
        name: Optional[str] = None,
        priority: Optional[int] = None,
        ranks: Optional[str] = None,
        cpus: Optional[int] = None,
        gpus: Optional[int] = None,
        max_attempts: Optional[int] = None,
        dry_run: bool = False,
        **more: Any,
    ) -> dict[str, Any]:
        """Submits a sweep, a training or a fine-tuning: a file, or what it would hold as a map. `overrides` and keywords are settings of
        all trials, as in foretime.train. Returns {"sweep": id, "jobs": [{"id": …}, …], "added": …, "warnings": […]}."""
        options = {
            "--name": name,
            "--priority": priority,
            "--ranks": ranks,
            "--cpus": cpus,
            "--gpus": gpus,
            "--max-attempts": max_attempts,
        }
        words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
        with programs.as_file(sweep, "sweep") as path:
            return self._json(
                "submit", path, *programs.words_of(overrides, more), *words, *(["--dry-run"] if dry_run else [])
            )

    def status(
        self, *ids: str, state: Optional[str] = None, sweep: Optional[str] = None, limit: Optional[int] = None
    ) -> dict[str, Any]:
        """The queue; of one id that sweep with its trials, or that job with its settings. The first digits of ids are enough."""
        options = {"--state": state, "--sweep": sweep, "--limit": limit}
        return self._json(
            "status",
            *ids,
            *(word for option, value in options.items() if value is not None for word in (option, str(value))),
        )

    def leaderboard(
        self,
        sweep: Optional[str] = None,
        metric: Optional[str] = None,
        goal: Optional[str] = None,
        top: Optional[int] = None,
    ) -> dict[str, Any]:
        """The trials of a sweep (default: the newest), best first: {"sweep", "name", "metric", "goal", "rows": [{"rank", "value",
        "parameters", "trials": […]}, …]}."""
        options = {"--metric": metric, "--goal": goal, "--top": top}
        words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
        return self._json("leaderboard", *([sweep] if sweep else []), *words)

    def trials(self, sweep: Optional[str] = None) -> Table:
        """The leaderboard as a table: rank, job, state, value, then a column for each swept setting and each metric."""
        rows = []
        for row in self.leaderboard(sweep)["rows"]:
            for trial in row["trials"]:
                rows.append(
                    {
                        "rank": row["rank"],
                        "job": trial["job"],
                        "state": trial["state"],
                        "value": trial["value"],
                        **{key: _parsed(value) for key, value in trial["parameters"].items()},
                        **trial["metrics"],
                    }
                )
        return Table.of_rows(rows)

    def history(self, job: str) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
        """What a job measured: {name: (steps [n], values [n])}; attempts are one history."""
        return {
            name: (
                np.array(series["steps"], np.int64),
                np.array([np.nan if value is None else value for value in series["values"]]),
            )
            for name, series in self._json("history", job).items()
        }

    def log(self, job: str, lines: int = 200) -> list[str]:
        """The last lines that a job wrote, at most 200."""
        return self._call("log", job, "--lines", str(lines)).splitlines()

    def cancel(self, *ids: str) -> None:
        """Cancels jobs, or all jobs of sweeps; those that run end after a checkpoint."""
        self._call("cancel", *ids)

    def wait(self, *ids: str, timeout: Optional[float] = None, poll: float = 1.0) -> list[dict[str, Any]]:
        """Waits until the jobs, or all jobs of the sweeps, have ended; returns the jobs. TimeoutError after `timeout` seconds. Agents
        must run somewhere: `agent`."""
        if not ids:
            raise ValueError("wait: no id, expected ids of jobs or sweeps")
        begin = time.monotonic()
        while True:
            jobs = [job for one in ids for job in self.jobs(one)]
            open_jobs = [job for job in jobs if job["state"] not in ENDED]
            if not open_jobs:
                return jobs
            if timeout is not None and time.monotonic() - begin >= timeout:
                raise TimeoutError(
                    f"{len(open_jobs)} of {len(jobs)} jobs have not ended after {timeout:g} s, the first: "
                    f"{open_jobs[0]['id']} is {open_jobs[0]['state']}"
                )
            time.sleep(poll)

    def jobs(self, one: str) -> list[dict[str, Any]]:
        """The job of this id, or the jobs of this sweep."""
        found = self.status(one, limit=1000000)
        if "jobs" in found and isinstance(found["jobs"], list):
            return list(found["jobs"])
        return [found]

    def agent(
        self,
        *words: str,
        until_empty: bool = True,
        cpus: Optional[int] = None,
        data_root: Optional[StrPath] = None,
        programs_in: Optional[StrPath] = None,
        output: Any = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Starts an agent on this machine, which works through the queue; `words`: further options of `foretime agent`. `programs_in`:
        the folder in which it runs the programs that sweeps name; None: it leaves such jobs alone. `output`: where its log goes. Terminating it
        lets jobs write a checkpoint and wait for another agent."""
        options = {"--cpus": cpus, "--data-root": data_root, "--programs": programs_in}
        more = [
            word for option, value in options.items() if value is not None for word in (option, programs.text_of(value))
        ]
        return subprocess.Popen(
            [self._program, "agent", *self._where, *(["--until-empty"] if until_empty else []), *more, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def run(self, job: str) -> Run:
        """The run directory of a job on this machine: its last attempt."""
        return Run(os.path.join(self._runs, self.jobs(job)[0]["id"]))


def _parsed(text: Any) -> Any:
    """Swept values are texts in the queue."""
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def sweep(
    file: Settings,
    overrides: Optional[Mapping[str, Any]] = None,
    *,
    runs: Optional[StrPath] = None,
    url: Optional[str] = None,
    agents: int = 1,
    cpus: Optional[int] = None,
    data_root: Optional[StrPath] = None,
    programs_in: Optional[StrPath] = None,
    **more: Any,
) -> Table:
    """Runs a whole sweep on this machine: submits it, lets `agents` agents work until the queue is empty, and returns the trials, best
    first (Queue.trials). `cpus`: CPUs of each agent; `data_root`: the folder that trials may read, default: the working folder;
    `programs_in`: the folder of your own program, where the sweep has one.
    CommandError where every trial failed. For more than one machine: Queue.submit, and `foretime agent` on each."""
    queue = Queue(url, runs)
    submitted = queue.submit(file, overrides, **more)
    cpus = cpus or max(1, (os.cpu_count() or 1) // max(1, agents))
    workers = [queue.agent(cpus=cpus, data_root=data_root, programs_in=programs_in) for _ in range(agents)]
    try:
        codes = [worker.wait() for worker in workers]
    except BaseException:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
        raise
    wrong = [code for code in codes if code not in (0, 7)]  # 7: some jobs failed, as the table's states tell
    if wrong:
        raise programs.CommandError(
            ["foretime", "agent"], wrong[0], "an agent ended; foretime agent --until-empty shows why"
        )
    trials = queue.trials(submitted["sweep"])
    if "succeeded" not in trials["state"]:
        job = queue.jobs(str(trials["job"][0]))[0]
        kept_waiting = (
            "these agents could not run it; a sweep of a program needs programs_in, the folder of that program"
        )
        raise programs.CommandError(
            ["foretime", "agent"],
            7,
            f"no trial of {len(trials['state'])} succeeded; {job['id']} is {job['state']}: "
            f"{job['error'] or job['reason'] or kept_waiting}",
        )
    return trials
