"""Foretime's models as cost models of TVM's meta_schedule (TVM 0.10 to 0.14).

    meta_schedule.tune_tir(module, target, work_dir, max_trials_global=64, cost_model=ForetimeCostModel("cpu.foretime"))
"""
import shutil

import numpy as np
from tvm import tir
from tvm.ir import structural_hash
from tvm.ir.base import save_json
from tvm.meta_schedule.cost_model import PyCostModel
from tvm.meta_schedule.utils import derived_object

from .library import Model
from .scores import Speeds


def program_text(module):
    """save_json text of a module's PrimFunc; of the module where it has several functions."""
    functions = [function for _, function in module.functions.items() if isinstance(function, tir.PrimFunc)]
    return save_json(functions[0] if len(functions) == 1 else module)


@derived_object
class ForetimeCostModel(PyCostModel):
    """Scores candidates by their scheduled TIR. It is trained, and what is measured does not change it.

    Scores are relative speeds (foretime.scores.Scale), higher is faster; 0 for a module that Foretime cannot read.
    """

    def __init__(self, bundle, threads=1, library=None):
        super().__init__()
        self._threads = threads
        self._library = library
        self.load(bundle)

    def load(self, path):
        """Goes on with another bundle."""
        self._model = Model(path, self._threads, library=self._library)
        self._bundle = path
        self._speeds = Speeds(self._model)

    def save(self, path):
        """Copies the bundle in use."""
        shutil.copyfile(self._bundle, path)

    def update(self, context, candidates, results):
        """Nothing: the model is trained."""

    def predict(self, context, candidates):
        """float64 [candidates]: relative speeds."""
        if len(candidates) == 0:
            return np.empty(0, np.float64)
        scores = self._model.score_tir([program_text(candidate.sch.mod) for candidate in candidates])
        key = structural_hash(context.mod) if context.mod is not None else None
        speeds = self._speeds(key, scores).astype(np.float64)
        return np.where(np.isfinite(speeds), speeds, 0.0)
