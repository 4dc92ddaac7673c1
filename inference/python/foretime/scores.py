"""What searches take for scores: positive, higher is faster."""
import numpy as np

LIMIT = 30.0  # of logarithms: sums of exp(30) stay far from the end of float32


class Scale:
    """Turns a model's scores (lower is faster, +inf for none) into relative speeds (higher is faster, -inf for none).

    TVM's evolutionary searches draw parents in proportion to scores, take negative ones for zero, and compare those of different
    calls. So scores become exp((reference - score) / unit), where the first scores of a workload fix reference, their lowest,
    and unit: 1 for logarithms of run times, which gives the speed relative to the best of the first; else their deviation.
    """

    def __init__(self, logarithms):
        self._unit = 1.0 if logarithms else None
        self._reference = None

    def __call__(self, scores):
        """float32 speeds [scores]."""
        scores = np.asarray(scores, np.float64)
        finite = np.isfinite(scores)
        speeds = np.full(scores.shape, -np.inf, np.float32)
        if finite.any():
            valid = scores[finite]
            if self._reference is None:
                self._reference = valid.min()
                self._unit = self._unit or valid.std() or 1.0
            speeds[finite] = np.exp(np.clip((self._reference - valid) / self._unit, -LIMIT, LIMIT))
        return speeds


class Speeds:
    """Relative speeds by a model, with a scale a workload."""

    def __init__(self, model):
        manifest = model.describe()
        targets = manifest.get("targets", {})
        # Scores of such models are logarithms of run times, of which a deviation was made 1 and a mean and the workload's
        # operations taken away: in ratios neither matters.
        logarithms = bool(manifest.get("predicts_runtimes")) and str(targets.get("kind", "")).startswith("log_")
        self._unit = float(targets.get("deviation", 1.0)) if logarithms else None
        self._scales = {}

    def __call__(self, workload, scores):
        """float32 speeds of candidates of this workload (any key) from the model's scores of them."""
        scale = self._scales.setdefault(workload, Scale(self._unit is not None))
        return scale(scores if self._unit is None else np.asarray(scores, np.float64) * self._unit)
