"""mlflow.pyfunc: models of Python are pickled."""
from __future__ import annotations

from typing import Any

from .flavour import load_model, logging_of


class PythonModel:
    """The base of a program's own models."""

    def load_context(self, context: Any) -> None:
        """Programs define it."""

    def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
        """Programs define it."""


_log = logging_of("pyfunc")


def log_model(artifact_path: Any = None, *arguments: Any, python_model: Any = None, **options: Any) -> None:
    """Keeps a model below the artifacts."""
    _log(python_model, options.pop("name", None) or artifact_path)


__all__ = ["PythonModel", "load_model", "log_model"]
