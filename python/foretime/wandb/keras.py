"""Callbacks of Keras that log to the active run. Keras is imported from where the program has it."""
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Optional, Union

from .. import wandb
from ..logged_run import number_of
from .errors import Error


def _base(name: str) -> Any:
    """The class of keras.callbacks; a plain class without Keras."""
    places = ("keras.callbacks", "tensorflow.keras.callbacks", "tf_keras.callbacks")
    loaded = [place for place in places if place.rpartition(".")[0] in sys.modules]
    for place in [*loaded, *places]:
        try:
            return getattr(importlib.import_module(place), name)
        except (ImportError, AttributeError):
            continue
    return object


_Callback: Any = _base("Callback")
_Checkpoint: Any = _base("ModelCheckpoint")


def _run() -> Any:
    if wandb.run is None:
        raise Error("You must call wandb.init() before a callback of W&B")
    return wandb.run


class WandbCallback(_Callback):  # type: ignore[misc]
    """Logs each epoch's losses and metrics, and keeps the best model as model-best.h5. Predictions, gradients and graphs are not logged."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_weights_only: bool = False,
        save_model: bool = True,
        log_batch_frequency: Optional[int] = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.monitor, self.save_model, self.save_weights_only = monitor, save_model, save_weights_only
        self.log_batch_frequency = log_batch_frequency
        larger = mode == "max" or (
            mode == "auto" and any(word in monitor for word in ("acc", "auc", "precision", "recall", "f1"))
        )
        self._sign = -1 if larger else 1
        self.best: Optional[float] = None
        self.best_epoch = -1

    def on_train_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Logs a batch, with log_batch_frequency."""
        if self.log_batch_frequency and batch % self.log_batch_frequency == 0:
            _run().log(dict(logs or {}))

    on_batch_end = on_train_batch_end

    def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Logs an epoch."""
        run = _run()
        logs = dict(logs or {})
        value = number_of(logs.get(self.monitor))
        better = value is not None and (self.best is None or self._sign * value < self._sign * self.best)
        if better:
            self.best, self.best_epoch = value, epoch
            run.summary[f"best_{self.monitor}"], run.summary["best_epoch"] = value, epoch
            if self.save_model and getattr(self, "model", None) is not None:
                save = self.model.save_weights if self.save_weights_only else self.model.save
                try:
                    save(os.path.join(run.dir, "model-best.h5"))
                except (ImportError, OSError, TypeError, ValueError) as error:
                    run._logged.say(f"model-best.h5: not kept: {error}", once="model-best")
        run.log({"epoch": epoch, **logs})


class WandbMetricsLogger(_Callback):  # type: ignore[misc]
    """Logs epoch/NAME for each loss and metric, and batch/NAME with log_freq="batch" or a number of batches."""

    def __init__(
        self, log_freq: Union[str, int] = "epoch", initial_global_step: int = 0, *arguments: Any, **options: Any
    ) -> None:
        super().__init__()
        self._every = 1 if log_freq == "batch" else log_freq if isinstance(log_freq, int) else 0
        self._batch = initial_global_step

    def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Logs an epoch."""
        _run().log({"epoch/epoch": epoch, **{f"epoch/{name}": value for name, value in (logs or {}).items()}})

    def on_train_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Logs a batch."""
        self._batch += 1
        if self._every and batch % self._every == 0:
            _run().log(
                {"batch/batch_step": self._batch, **{f"batch/{name}": value for name, value in (logs or {}).items()}}
            )


class WandbModelCheckpoint(_Checkpoint):  # type: ignore[misc]
    """Keras' ModelCheckpoint: its files stay where it writes them."""


class WandbEvalCallback(_Callback):  # type: ignore[misc]
    """Calls add_ground_truth and add_model_predictions, which programs define; the tables are kept as files."""

    def __init__(
        self, data_table_columns: Any = None, pred_table_columns: Any = None, *arguments: Any, **options: Any
    ) -> None:
        super().__init__()
        self.data_table = wandb.Table(columns=data_table_columns or [])
        self.pred_table = wandb.Table(columns=pred_table_columns or [])
        self.data_table_ref = self.data_table

    def on_train_begin(self, logs: Any = None) -> None:
        """Calls add_ground_truth."""
        self.add_ground_truth(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Calls add_model_predictions."""
        self.add_model_predictions(epoch, logs)
        _run().log({"predictions": self.pred_table}, commit=False)

    def add_ground_truth(self, logs: Any = None) -> None:
        """Programs define it."""

    def add_model_predictions(self, epoch: int, logs: Any = None) -> None:
        """Programs define it."""
