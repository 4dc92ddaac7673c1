"""Exceptions with the names that W&B gives them."""
from __future__ import annotations


class Error(Exception):
    """The base of all."""

    def __init__(self, message: str = "", context: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class CommError(Error):
    """What was asked for is on a server of W&B."""


class UsageError(Error):
    """A call is wrong."""


class ConfigError(Error):
    """A value of the config was to change without allow_val_change."""


class AuthenticationError(CommError):
    """Never raised: nobody logs in."""


class UnsupportedError(UsageError):
    """Foretime does not carry the call."""


class WandbCoreNotAvailableError(Error):
    """Never raised."""
