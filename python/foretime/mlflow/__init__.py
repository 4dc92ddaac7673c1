"""MLflow's calls, carried to Foretime: `import mlflow` in a trial is this module (foretime.compat).

`log_metric` is reported, and the last value of each metric is the trial's result. Params, tags, artifacts and models are kept as files.
Nothing is sent to a tracking server; autolog, the registry and searches have no effect.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from . import entities, exceptions, models, tracking
from .runs import MlflowException, Run, new_run
from .tracking import MlflowClient

__version__ = "2.20.0+foretime"

_stack: list[Run] = []
_runs: dict[str, Run] = {}
_state: dict[str, Any] = {"experiment": "Default", "uri": "", "last": None}


def set_tracking_uri(uri: Any) -> None:
    """Notes the address, which is not used."""
    _state["uri"] = str(uri)


def get_tracking_uri() -> str:
    """Returns what set_tracking_uri got."""
    return str(_state["uri"])


set_registry_uri = set_tracking_uri
get_registry_uri = get_tracking_uri


def is_tracking_uri_set() -> bool:
    """Returns whether there is an address."""
    return bool(_state["uri"])


def set_experiment(
    experiment_name: Optional[str] = None, experiment_id: Optional[str] = None, **options: Any
) -> entities.Experiment:
    """Names the experiment of the next runs."""
    _state["experiment"] = str(experiment_name or experiment_id or "Default")
    return entities.Experiment(_state["experiment"])


def create_experiment(name: str, *arguments: Any, **options: Any) -> str:
    """Returns the name."""
    return name


def get_experiment_by_name(name: str) -> entities.Experiment:
    """Returns an experiment of this name."""
    return entities.Experiment(name)


def get_experiment(experiment_id: str) -> entities.Experiment:
    """Returns an experiment of this name."""
    return entities.Experiment(str(experiment_id))


def start_run(
    run_id: Optional[str] = None,
    experiment_id: Optional[str] = None,
    run_name: Optional[str] = None,
    nested: bool = False,
    parent_run_id: Optional[str] = None,
    tags: Optional[Mapping[str, Any]] = None,
    description: Optional[str] = None,
    **options: Any,
) -> Run:
    """Starts a run and returns it. A nested run reports to the trial of its parent."""
    if _stack and not nested:
        raise MlflowException(
            f"Run with UUID {_stack[-1].info.run_id} is already active. To start a new run, first end the current run with "
            "mlflow.end_run(). To start a nested run, call start_run with nested=True"
        )
    run = _new(run_name, _stack[0] if _stack else None, str(experiment_id or _state["experiment"]), tags)
    _stack.append(run)
    _state["last"] = run
    return run


def _new(name: Optional[str], parent: Optional[Run], experiment: str, tags: Optional[Mapping[str, Any]]) -> Run:
    run = new_run(name or (tags or {}).get("mlflow.runName"), parent, experiment, len(_runs))
    run.data.tags.update({str(key): str(value) for key, value in (tags or {}).items()})
    _runs[run.info.run_id] = run
    run.describe()
    return run


def end_run(status: str = "FINISHED") -> None:
    """Ends the innermost run."""
    if _stack:
        _stack.pop().end(status)


def active_run() -> Optional[Run]:
    """Returns the innermost run that is active."""
    return _stack[-1] if _stack else None


def last_active_run() -> Optional[Run]:
    """Returns the run that was started last."""
    found: Optional[Run] = _state["last"]
    return found


def get_run(run_id: str) -> Run:
    """Returns a run of this process."""
    if run_id in _runs:
        return _runs[run_id]
    raise MlflowException(f"Run {run_id!r} not found: Foretime keeps the runs of this process")


def _run() -> Run:
    return _stack[-1] if _stack else start_run()


def log_metric(
    key: str, value: Any, step: Optional[int] = None, synchronous: Optional[bool] = None, **options: Any
) -> None:
    """Logs a number."""
    _run().log({key: value}, step)


def log_metrics(
    metrics: Mapping[str, Any], step: Optional[int] = None, synchronous: Optional[bool] = None, **options: Any
) -> None:
    """Logs several numbers."""
    _run().log(metrics, step)


def log_params(params: Mapping[str, Any], synchronous: Optional[bool] = None, run_id: Optional[str] = None) -> None:
    """Keeps parameters."""
    run = _run()
    for key, value in params.items():
        before = run.data.params.get(str(key))
        if before is not None and before != str(value):
            raise MlflowException(
                f"Changing param values is not allowed. Param with key={key!r} was already logged with value={before!r}, "
                f"attempted new value {str(value)!r}"
            )
        run.data.params[str(key)] = str(value)
    run.describe()


def log_param(key: str, value: Any, synchronous: Optional[bool] = None) -> Any:
    """Keeps a parameter, and returns it."""
    log_params({key: value})
    return value


def set_tags(tags: Mapping[str, Any], synchronous: Optional[bool] = None) -> None:
    """Keeps tags."""
    run = _run()
    run.data.tags.update({str(key): str(value) for key, value in tags.items()})
    run.describe()


def set_tag(key: str, value: Any, synchronous: Optional[bool] = None) -> None:
    """Keeps a tag."""
    set_tags({key: value})


def delete_tag(key: str) -> None:
    """Removes a tag."""
    _run().data.tags.pop(key, None)


def set_experiment_tags(*arguments: Any, **options: Any) -> None:
    """Has no effect."""


set_experiment_tag = set_experiment_tags


def log_artifact(local_path: Any, artifact_path: Optional[str] = None, run_id: Optional[str] = None) -> None:
    """Copies a file or a folder to the artifacts."""
    _run().keep_file(local_path, artifact_path)


def log_artifacts(local_dir: Any, artifact_path: Optional[str] = None, run_id: Optional[str] = None) -> None:
    """Copies what a folder has to the artifacts."""
    for path in sorted(pathlib.Path(local_dir).iterdir()):
        _run().keep_file(path, artifact_path)


def log_text(text: str, artifact_file: str, run_id: Optional[str] = None) -> None:
    """Writes a text to the artifacts."""
    _run().keep_text(text, artifact_file)


def log_dict(dictionary: Any, artifact_file: str, run_id: Optional[str] = None) -> None:
    """Writes a map to the artifacts, as JSON."""
    _run().keep_json(dictionary, artifact_file)


def log_table(data: Any, artifact_file: str, run_id: Optional[str] = None) -> None:
    """Writes a table to the artifacts, as JSON."""
    _run().keep_json(data.to_dict("list") if hasattr(data, "to_dict") else data, artifact_file)


def _drawn(value: Any, name: str) -> None:
    from ..wandb.media import write_value

    write_value(value, _run().place(os.path.dirname(name)) / pathlib.Path(os.path.basename(name)).stem)


def log_figure(figure: Any, artifact_file: str, **options: Any) -> None:
    """Draws a figure to the artifacts."""
    _drawn(figure, artifact_file)


def log_image(
    image: Any,
    artifact_file: Optional[str] = None,
    key: Optional[str] = None,
    step: Optional[int] = None,
    **options: Any,
) -> None:
    """Keeps a picture."""
    _drawn(image, artifact_file or f"{key or 'image'}-{step or 0}")


def log_input(*arguments: Any, **options: Any) -> None:
    """Has no effect: data sets are not kept."""


def get_artifact_uri(artifact_path: Optional[str] = None) -> str:
    """Returns the address of the artifacts' folder."""
    return _run().place(artifact_path).as_uri()


def register_model(*arguments: Any, **options: Any) -> Any:
    """Has no effect: there is no registry."""
    return entities.Experiment("model")


def search_runs(*arguments: Any, **options: Any) -> Any:
    """Returns no runs."""
    if options.get("output_format") == "list":
        return []
    import pandas

    return pandas.DataFrame([])


def search_experiments(*arguments: Any, **options: Any) -> list[Any]:
    """Returns none."""
    return []


def autolog(*arguments: Any, **options: Any) -> None:
    """Has no effect, and prints that once."""
    print("foretime: mlflow.autolog is not carried: call mlflow.log_metric", flush=True)


def enable_system_metrics_logging(*arguments: Any, **options: Any) -> None:
    """Has no effect."""


disable_system_metrics_logging = flush_async_logging = enable_system_metrics_logging


@contextlib.contextmanager
def start_span(*arguments: Any, **options: Any) -> Iterator[Any]:
    """Has no effect."""
    yield None


FLAVOURS = (
    "catboost",
    "keras",
    "lightgbm",
    "lightning",
    "pytorch",
    "sklearn",
    "statsmodels",
    "tensorflow",
    "transformers",
    "xgboost",
)


def __getattr__(name: str) -> Any:
    """Flavours, imported on demand: mlflow.sklearn, mlflow.pytorch, …"""
    if name in (*FLAVOURS, "data", "pyfunc"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(
        f"module 'mlflow' has no attribute {name!r}: Foretime carries some of MLflow's calls (FORETIME_REAL=mlflow takes the package)"
    )


__all__ = [
    "MlflowClient",
    "MlflowException",
    "Run",
    "active_run",
    "autolog",
    "create_experiment",
    "delete_tag",
    "end_run",
    "entities",
    "exceptions",
    "get_artifact_uri",
    "get_experiment",
    "get_experiment_by_name",
    "get_run",
    "get_tracking_uri",
    "last_active_run",
    "log_artifact",
    "log_artifacts",
    "log_dict",
    "log_figure",
    "log_image",
    "log_input",
    "log_metric",
    "log_metrics",
    "log_param",
    "log_params",
    "log_table",
    "log_text",
    "models",
    "register_model",
    "search_runs",
    "set_experiment",
    "set_tag",
    "set_tags",
    "set_tracking_uri",
    "start_run",
    "tracking",
]
