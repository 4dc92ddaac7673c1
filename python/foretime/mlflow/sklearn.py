"""mlflow.sklearn: models are kept as files; autolog has no effect."""
from __future__ import annotations

from .flavour import autolog, load_model, logging_of, save_model

log_model = logging_of("sklearn")
log_state_dict = log_model

__all__ = ["autolog", "load_model", "log_model", "log_state_dict", "save_model"]
