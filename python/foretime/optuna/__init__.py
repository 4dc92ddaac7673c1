"""Optuna's calls, carried to Foretime: `import optuna` in a trial is this module (foretime.compat).

In a trial `suggest_…` returns what the sweep chose, `report` is an evaluation, `should_prune` early stopping, and the objective's value the
result. By hand `optimize` draws at random. Samplers, pruners, storages and charts have no effect.
"""
from __future__ import annotations

from . import (
    artifacts,
    distributions,
    exceptions,
    importance,
    integration,
    logging,
    pruners,
    samplers,
    storages,
    study,
    trial,
    visualization,
)
from .exceptions import ExperimentalWarning, TrialPruned
from .study import (
    MaxTrialsCallback,
    Study,
    copy_study,
    create_study,
    delete_study,
    get_all_study_names,
    get_all_study_summaries,
    load_study,
)
from .trial import FrozenTrial, Trial, create_trial

__version__ = "4.2.0+foretime"

__all__ = [
    "ExperimentalWarning",
    "FrozenTrial",
    "MaxTrialsCallback",
    "Study",
    "Trial",
    "TrialPruned",
    "artifacts",
    "copy_study",
    "create_study",
    "create_trial",
    "delete_study",
    "distributions",
    "exceptions",
    "get_all_study_names",
    "get_all_study_summaries",
    "importance",
    "integration",
    "load_study",
    "logging",
    "pruners",
    "samplers",
    "storages",
    "study",
    "trial",
    "visualization",
]
