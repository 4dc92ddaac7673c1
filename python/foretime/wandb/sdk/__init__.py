"""Names that other packages import from W&B's inside."""
from ..run import Run
from ..settings import Settings
from . import wandb_run

__all__ = ["Run", "Settings", "wandb_run"]
