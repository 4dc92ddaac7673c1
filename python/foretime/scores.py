"""What searches take for scores: positive, higher is faster."""
from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from .model import Model

logger = logging.getLogger("foretime")

LIMIT = 30.0  # of logarithms: sums of exp(30) stay far from the end of float32


class Scale:
    """Turns a model's scores (lower is faster, +inf for none) into relative speeds (higher is faster).

    TVM's evolutionary searches draw parents in proportion to scores, take negative ones for zero, and compare those of different
    calls. So scores become exp((reference - score) / unit), where the first scores of a workload fix reference, their lowest,
    and unit: 1 for logarithms of run times, which gives the speed relative to the best of the first; else their deviation.

    A candidate without a score is unknown, not hopeless: it gets the median speed of the first scored candidates, which a search
    draws at random, so that it is as good as chance, and falls behind when the search has found better ones. Before any candidate
    had a score all get 1.
    """

    def __init__(self, logarithms: bool) -> None:
        self._unit: Any = 1.0 if logarithms else None
        self._reference: Any = None
        self._unknown: Any = 1.0

    def _speeds(self, scores: Any) -> npt.NDArray[np.float64]:
        speeds: npt.NDArray[np.float64] = np.exp(np.clip((self._reference - scores) / self._unit, -LIMIT, LIMIT))
        return speeds

    def __call__(self, scores: Any) -> npt.NDArray[np.float32]:
        """float32 speeds [scores]."""
        scores = np.asarray(scores, np.float64)
        finite = np.isfinite(scores)
        valid = scores[finite]
        if self._reference is None and len(valid):
            self._reference = valid.min()
            self._unit = self._unit or valid.std() or 1.0
            self._unknown = np.median(self._speeds(valid))
        speeds = np.full(scores.shape, self._unknown, np.float32)
        if len(valid):
            speeds[finite] = self._speeds(valid)
        return speeds


class Speeds:
    """Relative speeds by a model, with a scale a workload."""

    def __init__(self, model: Model) -> None:
        manifest = model.describe()
        targets = manifest.get("targets", {})
        # Scores of such models are logarithms of run times, of which a deviation was made 1 and a mean and the
        # workload's operations taken away: in ratios neither matters.
        logarithms = bool(manifest.get("predicts_runtimes")) and str(targets.get("kind", "")).startswith("log_")
        self._unit = float(targets.get("deviation", 1.0)) if logarithms else None
        self._scales: dict[Hashable, Scale] = {}

    def __call__(self, workload: Hashable, scores: Any, failures: Any = None) -> npt.NDArray[np.float32]:
        """float32 speeds of candidates of this workload (any key) from the model's scores of them. With chances of failure, the
        speeds to be expected: times the chance that a candidate runs; NaN, of one without a score, changes nothing."""
        scale = self._scales.setdefault(workload, Scale(self._unit is not None))
        speeds: npt.NDArray[np.float32] = scale(
            scores if self._unit is None else np.asarray(scores, np.float64) * self._unit
        )
        if failures is not None:
            speeds *= 1 - np.nan_to_num(np.asarray(failures, np.float32), nan=0.0)
        return speeds


class Unscored:
    """Warns of candidates without a score: how many of a workload, and why the first one has none.

    At the first one of a workload, and when there are twice as many as were told, for a search asks hundreds of times.
    """

    def __init__(self) -> None:
        self._counts: dict[Hashable, tuple[int, int, int]] = {}

    def note(self, workload: Any, scores: Any, failure: Callable[[], str]) -> int:
        """Takes the scores of one call; `failure()` says why the first candidate without one has none. The number of candidates so
        far where none of this workload has ever had a score, else 0."""
        candidates, unscored, told = self._counts.get(workload, (0, 0, 0))
        missing = int(len(scores) - np.isfinite(scores).sum())
        candidates, unscored = candidates + len(scores), unscored + missing
        if missing and unscored >= 2 * told:
            logger.warning(
                "%d of %d candidates of %s have no score, %.0f %%, and are taken as average ones: %s",
                unscored,
                candidates,
                str(workload)[:60],
                100.0 * unscored / candidates,
                failure(),
            )
            told = unscored
        self._counts[workload] = candidates, unscored, told
        return unscored if unscored == candidates else 0


class UnknownMachines:
    """Warns of machines that targets name (`-model=`), or do not name, and a bundle does not know, whose caches and rates it guesses: once of each."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def note(self, model: Model, target: str) -> None:
        """Takes the target of a workload that the model is to score."""
        name = model.unknown_machine(target)
        if not name or name in self._told:
            return
        self._told.add(name)
        known = ", ".join(machine["name"] for machine in model.describe().get("machines", [])) or "none"
        logger.warning(
            "the model does not know %s (it knows %s): its caches and rates are guessed; describe it (foretime target "
            "measure) and add it to the bundle (foretime bundle add-machine)",
            name if " " in name else f"machine {name}",
            known,
        )
