"""W&B's place of Run."""
from ..run import Run

__all__ = ["Run"]
