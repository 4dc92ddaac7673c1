"""What the modules of MLflow's flavours share."""
from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from .runs import MlflowException


def autolog(*arguments: Any, **options: Any) -> None:
    """Has no effect, and prints that."""
    from .. import mlflow

    mlflow.autolog()


def logging_of(flavour: str) -> Callable[..., None]:
    """Returns log_model of a flavour."""

    def log_model(model: Any, artifact_path: Any = None, *arguments: Any, name: Any = None, **options: Any) -> None:
        """Keeps a model below the artifacts."""
        from .. import mlflow

        mlflow._run().keep_model(flavour, model, str(name or artifact_path or "model"))

    return log_model


def save_model(model: Any, path: Any, *arguments: Any, **options: Any) -> None:
    """Pickles a model."""
    with open(path, "wb") as file:
        pickle.dump(model, file)


def load_model(*arguments: Any, **options: Any) -> Any:
    """Raises MlflowException: there is no registry."""
    raise MlflowException("load_model: Foretime keeps models as files below `artifacts` of the run; load that file")
