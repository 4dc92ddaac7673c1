"""W&B's calls, carried to Foretime: `import wandb` in a trial is this module (foretime.compat).

In a trial `init` takes the sweep's parameters into `config`, `log` reports rows, and the summary is the trial's result. By hand a run is a
folder below `runs` (FORETIME_RUNS) with metrics.jsonl, which foretime.Run reads. Nothing is sent to W&B. Tables, media, texts and artifacts
are kept as files. `sweep` and `agent` with a function run a sweep in this process.
"""
from __future__ import annotations

import enum
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Optional

from .. import logged_run
from . import errors, plot, sdk, util, wandb_run
from .artifacts import Artifact
from .config import Config
from .errors import CommError, Error, UsageError
from .media import Audio, Bokeh, Graph, Histogram, Html, Image, Molecule, Object3D, Plotly, Table, Video
from .run import Run, print_where, scratch_run
from .settings import Settings
from .summary import Summary
from .sweeps import agent, controller, sweep

__version__ = "0.19.0+foretime"
plots = plot

run: Optional[Run] = None
config: Any = Config()
summary: Any = Summary()


class AlertLevel(enum.Enum):
    """Levels of `alert`."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def _announce_sweep() -> None:
    """Programs ask the environment whether W&B's agent has started them."""
    if logged_run.in_trial():
        import json

        with open(os.environ["FORETIME_TRIAL"], encoding="utf-8") as file:
            told = json.load(file)
        os.environ.setdefault("WANDB_SWEEP_ID", str(told.get("sweep") or told.get("job") or "sweep"))
        os.environ.setdefault("WANDB_RUN_ID", str(told.get("job") or "trial"))


_announce_sweep()


def init(
    job_type: Optional[str] = None,
    dir: Any = None,
    config: Any = None,
    project: Optional[str] = None,
    entity: Optional[str] = None,
    reinit: Any = None,
    tags: Any = None,
    group: Optional[str] = None,
    name: Optional[str] = None,
    notes: Optional[str] = None,
    config_exclude_keys: Any = None,
    config_include_keys: Any = None,
    mode: Optional[str] = None,
    allow_val_change: Optional[bool] = None,
    resume: Any = None,
    id: Optional[str] = None,
    settings: Any = None,
    **more: Any,
) -> Run:
    """Starts a run and returns it; while one is active, that one. `config`: defaults, over which the sweep's parameters win.
    mode="disabled" keeps nothing outside of a trial; other modes, and `project` to `group`, are only noted."""
    global run, summary
    if run is not None and (not reinit or reinit == "return_previous") and run._logged._process == os.getpid():
        return run
    if run is not None and run._logged._process == os.getpid() and reinit != "create_new":
        run.finish(quiet=True)
    kept = (
        settings if isinstance(settings, Settings) else Settings(**(settings if isinstance(settings, Mapping) else {}))
    )
    mode = mode or kept.mode or os.environ.get("WANDB_MODE")
    disabled = mode == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1", "yes")
    options = {
        "job_type": job_type,
        "config": config if config is not None else _default_config(),
        "project": project,
        "entity": entity,
        "tags": tags,
        "group": group,
        "name": name,
        "notes": notes,
        "config_exclude_keys": config_exclude_keys,
        "config_include_keys": config_include_keys,
        "allow_val_change": allow_val_change,
        "id": id,
    }
    if disabled and not logged_run.in_trial():
        run = scratch_run(kept, options)
    else:
        run = Run(logged_run.current(name or project or ""), kept, options)
        if resume and resume != "never" and run._logged.earlier_step() >= 0:
            run.resumed, run._step = True, run._logged.earlier_step() + 1
            run.starting_step = run._step
        print_where(run)
        for unused in ("magic", "sync_tensorboard", "monitor_gym"):
            if more.get(unused):
                run._logged.say(f"wandb.init: {unused} has no effect: call wandb.log", once=unused)
        run._describe(now=True)
    globals()["config"], summary = run.config, run.summary
    return run


def _default_config() -> Any:
    """The path of config-defaults.yaml, which W&B reads where it exists."""
    return "config-defaults.yaml" if os.path.isfile("config-defaults.yaml") else None


def _active(call: str) -> Run:
    if run is None:
        raise Error(f"You must call wandb.init() before wandb.{call}()")
    return run


def log(
    data: Mapping[str, Any], step: Optional[int] = None, commit: Optional[bool] = None, sync: Optional[bool] = None
) -> None:
    """Logs a row to the active run."""
    _active("log").log(data, step=step, commit=commit)


def finish(exit_code: Optional[int] = None, quiet: Optional[bool] = None) -> None:
    """Ends the active run."""
    if run is not None:
        run.finish(exit_code, quiet)


join = finish


def define_metric(
    name: str,
    step_metric: Any = None,
    step_sync: Optional[bool] = None,
    hidden: Optional[bool] = None,
    summary: Any = None,
    goal: Optional[str] = None,
    overwrite: Optional[bool] = None,
) -> Any:
    """Says what the summary has of a metric: summary="min", "max", "mean", "best", "last", "first" or "none"."""
    return _active("define_metric").define_metric(name, step_metric, step_sync, hidden, summary, goal, overwrite)


def save(glob_str: Any = None, base_path: Optional[str] = None, policy: str = "live") -> Any:
    """Copies files to the run's folder."""
    return _active("save").save(glob_str, base_path, policy)


def restore(name: str, run_path: Optional[str] = None, replace: bool = False, root: Optional[str] = None) -> Any:
    """Opens a file that this run, or an earlier attempt of this trial, has saved."""
    return _active("restore").restore(name, run_path, replace, root)


def log_artifact(
    artifact_or_path: Any, name: Optional[str] = None, type: Optional[str] = None, aliases: Any = None, tags: Any = None
) -> Artifact:
    """Copies an artifact's files to the run's folder."""
    return _active("log_artifact").log_artifact(artifact_or_path, name, type, aliases, tags)


def use_artifact(
    artifact_or_name: Any, type: Optional[str] = None, aliases: Any = None, use_as: Optional[str] = None
) -> Artifact:
    """Returns an artifact that this run has logged."""
    return _active("use_artifact").use_artifact(artifact_or_name, type, aliases, use_as)


def log_model(path: Any, name: Optional[str] = None, aliases: Any = None) -> Artifact:
    """Copies a model's files to the run's folder."""
    return _active("log_model").log_model(path, name, aliases)


def use_model(name: str) -> str:
    """Returns the path of a model that was logged."""
    return _active("use_model").use_model(name)


def link_model(*arguments: Any, **options: Any) -> None:
    """Has no effect: there is no registry."""


def log_code(*arguments: Any, **options: Any) -> None:
    """Has no effect."""


def watch(*arguments: Any, **options: Any) -> None:
    """Has no effect: gradients are not logged."""


def unwatch(*arguments: Any, **options: Any) -> None:
    """Has no effect."""


def alert(title: str, text: str = "", level: Any = None, wait_duration: Any = None) -> None:
    """Prints the alert."""
    _active("alert").alert(title, text, level, wait_duration)


def mark_preempting() -> None:
    """Has no effect."""


def login(*arguments: Any, **options: Any) -> bool:
    """Returns True: there is nowhere to log in."""
    return True


def setup(*arguments: Any, **options: Any) -> Settings:
    """Returns settings of no effect."""
    return Settings()


def teardown(exit_code: Optional[int] = None) -> None:
    """Ends the active run."""
    finish(exit_code)


def require(*arguments: Any, **options: Any) -> None:
    """Has no effect."""


def ensure_configured() -> None:
    """Has no effect."""


def termlog(string: str = "", newline: bool = True, repeat: bool = True) -> None:
    """Prints a line on standard error."""
    print(f"wandb: {string}", file=sys.stderr, end="\n" if newline else "", flush=True)


termwarn = termerror = termlog


def _attach(*arguments: Any, **options: Any) -> Run:
    return init()


class Api:
    """Asks W&B's server, which Foretime does not: every call raises CommError."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.default_entity = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise CommError(
            f"wandb.Api().{name}: Foretime asks no server of W&B; foretime.Queue and foretime.Run read what its runs keep"
        )


InternalApi = Api


def __getattr__(name: str) -> Any:
    """Submodules that W&B imports on demand."""
    if name in ("data_types", "integration", "keras", "lightgbm", "sklearn", "xgboost"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(
        f"module 'wandb' has no attribute {name!r}: Foretime carries some of W&B's calls (FORETIME_REAL=wandb takes the package)"
    )


__all__ = [
    "AlertLevel",
    "Api",
    "Artifact",
    "Audio",
    "Bokeh",
    "CommError",
    "Config",
    "Error",
    "Graph",
    "Histogram",
    "Html",
    "Image",
    "Molecule",
    "Object3D",
    "Plotly",
    "Run",
    "Settings",
    "Summary",
    "Table",
    "UsageError",
    "Video",
    "agent",
    "alert",
    "config",
    "controller",
    "define_metric",
    "errors",
    "finish",
    "init",
    "join",
    "log",
    "log_artifact",
    "log_code",
    "log_model",
    "login",
    "mark_preempting",
    "plot",
    "plots",
    "require",
    "restore",
    "run",
    "save",
    "sdk",
    "setup",
    "summary",
    "sweep",
    "teardown",
    "termerror",
    "termlog",
    "termwarn",
    "unwatch",
    "use_artifact",
    "use_model",
    "util",
    "wandb_run",
    "watch",
]
