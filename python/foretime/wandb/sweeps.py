"""wandb.sweep and wandb.agent(function): a sweep whose trials are calls of a function in this process.

In a trial of Foretime the agent calls the function once, with the trial's parameters. By hand the trials come from Foretime's queue where the
program `foretime` and NumPy are found (relay.py), so that bayes and early stopping work; otherwise grid and random searches are drawn here.
"""
from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import json
import os
import pathlib
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from .. import logged_run, programs
from ..trial import STOPPED
from . import errors, search
from .relay import Relay

MOST_TRIALS = 1000  # where neither count nor run_cap says how many
_sweeps: dict[str, dict[str, Any]] = {}


def sweep(sweep: Any, entity: Optional[str] = None, project: Optional[str] = None, prior_runs: Any = None) -> str:
    """Takes the configuration of a sweep and returns its id, for `agent`."""
    config = sweep() if callable(sweep) else sweep
    if not isinstance(config, Mapping):
        raise errors.UsageError(f"sweep: found {type(config).__name__}, expected a map")
    plain = json.loads(json.dumps(logged_run.plain_json(config)))
    name = os.environ.get("WANDB_SWEEP_ID") if logged_run.in_trial() else None
    name = name or hashlib.sha256(json.dumps([plain, len(_sweeps)]).encode()).hexdigest()[:8]
    _sweeps[name] = {key: value for key, value in plain.items() if value is not None}
    print(f"Create sweep with ID: {name}", flush=True)
    return name


def controller(*arguments: Any, **options: Any) -> Any:
    """Raises UnsupportedError: Foretime's agents and queue decide."""
    raise errors.UnsupportedError("wandb.controller: not carried; foretime submit and foretime agent run the sweep")


def agent(
    sweep_id: str,
    function: Optional[Callable[[], Any]] = None,
    entity: Optional[str] = None,
    project: Optional[str] = None,
    count: Optional[int] = None,
    **options: Any,
) -> None:
    """Calls the function once for each trial of the sweep, at most `count` times."""
    if logged_run.in_trial():
        if function is not None:
            function()
        return
    config = _sweeps.get(sweep_id.rpartition("/")[2])
    if config is None:
        raise errors.CommError(
            f"agent: this program made no sweep {sweep_id}, and Foretime asks no server of W&B: "
            "foretime submit FILE, then foretime agent --programs ."
        )
    if function is None:
        _run_program(config, count)
        return
    try:
        programs.find_program()
        importlib.import_module("numpy")  # of foretime.Queue
    except (FileNotFoundError, ModuleNotFoundError):
        _run_here(config, function, count)
    else:
        _run_by_queue(config, function, count)


def _with_count(config: Mapping[str, Any], count: Optional[int]) -> dict[str, Any]:
    content = {key: value for key, value in config.items() if key not in ("program", "command")}
    content.setdefault("name", content.get("project") or pathlib.Path(sys.argv[0] or "sweep").stem)
    if count is not None:
        content["run_cap"] = min(count, int(content.get("run_cap") or count))
    elif "run_cap" not in content and content.get("method") != "grid":
        content["run_cap"] = MOST_TRIALS
        print(
            f"foretime: agent: neither count nor run_cap: at most {MOST_TRIALS} trials; Ctrl-C ends the sweep",
            file=sys.stderr,
        )
    return content


def _run_program(config: dict[str, Any], count: Optional[int]) -> None:
    from .. import queue

    content = {**_with_count(config, count), **{key: config[key] for key in ("program", "command") if key in config}}
    print(queue.sweep(content, programs_in="."), flush=True)


def _call(function: Callable[[], Any]) -> int:
    """Calls a trial's function and ends its run; returns the exit code that a process of it would have."""
    from .. import wandb

    code = 0
    try:
        function()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Exception:  # pylint: disable=broad-except  # W&B, too, goes on with the next trial
        traceback.print_exc()
        code = 1
    if wandb.run is not None:
        wandb.run.finish(exit_code=1 if code not in (0, STOPPED) else None, quiet=True)
    current = logged_run._current
    if current is not None:
        if code == 0 and current.failed:
            code = logged_run.FAULT
        current.failed = False
        if code in (0, STOPPED):
            current.end()
    logged_run.forget()
    return code


def _run_here(config: Mapping[str, Any], function: Callable[[], Any], count: Optional[int]) -> None:
    """Draws the trials in this process."""
    content = _with_count(config, count)
    if content.get("method") == "bayes":
        print("foretime: agent: bayes needs the program foretime and NumPy: draws at random", file=sys.stderr)
    drawn = search.combinations(content) if content.get("method") == "grid" else search.draws(content)
    with tempfile.TemporaryDirectory(prefix="foretime-sweep-") as folder:
        for number, parameters in enumerate(itertools.islice(drawn, content.get("run_cap"))):
            runs = pathlib.Path(os.environ.get("FORETIME_RUNS") or "runs").absolute()
            directory = (
                runs
                / f"{logged_run.safe_name(str(content.get('name') or 'sweep'))}-{number}-{random.getrandbits(32):08x}"
            )
            directory.mkdir(parents=True)
            told = {
                "parameters": parameters,
                "directory": str(directory),
                "resume": None,
                "job": directory.name,
                "trial": number,
                "metric": (content.get("metric") or {}).get("name", ""),
                "sweep": "local",
            }
            (directory / "trial.json").write_text(json.dumps(told), encoding="utf-8")
            file = pathlib.Path(folder) / f"{number}.json"
            file.write_text(json.dumps(told), encoding="utf-8")
            with _environment({"FORETIME_TRIAL": str(file), "FORETIME_PROGRESS": ""}):
                _call(function)
            print(f"foretime: trial {number}: {json.dumps(parameters)}: {directory}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets variables for the time of a trial; an empty value removes one."""
    before = {name: os.environ.get(name) for name in (*values, "WANDB_SWEEP_ID", "WANDB_RUN_ID")}
    for name, value in values.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value
    from .. import wandb

    wandb._announce_sweep()
    try:
        yield
    finally:
        for name, old in before.items():
            os.environ.pop(name, None)
            if old is not None:
                os.environ[name] = old


def _run_by_queue(config: Mapping[str, Any], function: Callable[[], Any], count: Optional[int]) -> None:
    """Takes the trials from a queue: an agent on this machine starts a process for each trial, which asks this one to call the function."""
    from ..queue import Queue

    queue = Queue()
    with Relay() as relay, open(relay.folder / "agent.log", "wb") as log:
        content = {**_with_count(config, count), "command": relay.command()}
        submitted = queue.submit(content)
        for warning in submitted.get("warnings", []):
            print(f"foretime: {warning}", file=sys.stderr)
        worker = queue.agent("--jobs", "1", programs_in=relay.folder, output=log)
        try:
            while (request := relay.next_trial(worker)) is not None:
                with _environment(request.environment):
                    code = _call(function)
                request.answer(code)
        except BaseException as end:
            queue.cancel(submitted["sweep"])  # no other process can call the function
            worker.terminate()
            worker.wait()
            if not isinstance(end, KeyboardInterrupt):
                raise
        print(
            f"foretime: sweep {submitted['sweep']}: foretime leaderboard, foretime board", file=sys.stderr, flush=True
        )
