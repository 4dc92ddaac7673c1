"""MLflow's place of its exceptions."""
from .runs import MlflowException

__all__ = ["MlflowException"]
