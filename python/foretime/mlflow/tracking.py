"""mlflow.tracking: a client that logs to the runs of this process. MLflow's logger of Lightning uses it."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from ..ignored import ignored_class
from . import entities
from .runs import Run


class MlflowClient:
    """Logs to runs of this process by their id."""

    def __init__(self, tracking_uri: Optional[str] = None, registry_uri: Optional[str] = None) -> None:
        self.tracking_uri = tracking_uri or ""

    def create_experiment(self, name: str, *arguments: Any, **options: Any) -> str:
        """Returns the name."""
        return name

    def get_experiment_by_name(self, name: str) -> entities.Experiment:
        """Returns an experiment of this name."""
        return entities.Experiment(name)

    def get_experiment(self, experiment_id: str) -> entities.Experiment:
        """Returns an experiment of this name."""
        return entities.Experiment(str(experiment_id))

    def create_run(
        self, experiment_id: Any = None, start_time: Any = None, tags: Any = None, run_name: Optional[str] = None
    ) -> Run:
        """Starts a run, which is not the active one."""
        from .. import mlflow

        return mlflow._new(run_name, None, str(experiment_id or "Default"), tags)

    def get_run(self, run_id: str) -> Run:
        """Returns a run of this process."""
        from .. import mlflow

        return mlflow.get_run(run_id)

    def log_metric(
        self, run_id: str, key: str, value: Any, timestamp: Any = None, step: Optional[int] = None, **options: Any
    ) -> None:
        """Logs a number."""
        self.get_run(run_id).log({key: value}, step)

    def log_param(self, run_id: str, key: str, value: Any, **options: Any) -> Any:
        """Keeps a parameter."""
        run = self.get_run(run_id)
        run.data.params[key] = str(value)
        run.describe()
        return value

    def set_tag(self, run_id: str, key: str, value: Any, **options: Any) -> None:
        """Keeps a tag."""
        self.get_run(run_id).data.tags[key] = str(value)

    def log_batch(
        self,
        run_id: str,
        metrics: Sequence[Any] = (),
        params: Sequence[Any] = (),
        tags: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        """Logs numbers, parameters and tags."""
        run = self.get_run(run_id)
        by_step: dict[int, dict[str, Any]] = {}
        for metric in metrics:
            by_step.setdefault(metric.step, {})[metric.key] = metric.value
        for step in sorted(by_step):
            run.log(by_step[step], step)
        run.data.params.update({param.key: str(param.value) for param in params})
        run.data.tags.update({tag.key: str(tag.value) for tag in tags})
        run.describe()

    def log_artifact(self, run_id: str, local_path: Any, artifact_path: Optional[str] = None) -> None:
        """Copies a file to the artifacts."""
        self.get_run(run_id).keep_file(local_path, artifact_path)

    log_artifacts = log_artifact

    def set_terminated(self, run_id: str, status: Optional[str] = None, end_time: Any = None) -> None:
        """Ends a run."""
        from .. import mlflow

        run = self.get_run(run_id)
        if run in mlflow._stack:
            mlflow._stack.remove(run)
        run.end(status or "FINISHED")

    def search_runs(self, *arguments: Any, **options: Any) -> list[Any]:
        """Returns no runs."""
        return []

    search_experiments = search_runs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **options: None


def __getattr__(name: str) -> Any:
    return ignored_class(__name__, name)
