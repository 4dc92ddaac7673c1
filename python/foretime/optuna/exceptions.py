"""Exceptions with the names that Optuna gives them."""
from __future__ import annotations


class OptunaError(Exception):
    """The base of all."""


class TrialPruned(OptunaError):
    """An objective ends its trial early."""


class StorageInternalError(OptunaError):
    """Never raised."""


class DuplicatedStudyError(OptunaError):
    """Never raised."""


class ExperimentalWarning(Warning):
    """Never given."""
