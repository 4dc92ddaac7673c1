"""W&B's older place of Run."""
from .run import Run

__all__ = ["Run"]
