"""optuna.logging: levels are taken, and have no effect."""
from __future__ import annotations

import logging
from typing import Any

CRITICAL, FATAL, ERROR, WARNING, WARN, INFO, DEBUG = (
    logging.CRITICAL,
    logging.FATAL,
    logging.ERROR,
    logging.WARNING,
    logging.WARN,
    logging.INFO,
    logging.DEBUG,
)


def get_logger(name: str) -> logging.Logger:
    """Returns a logger of Python's."""
    return logging.getLogger(name)


def get_verbosity() -> int:
    """Returns INFO."""
    return INFO


def set_verbosity(verbosity: int) -> None:
    """Has no effect."""


def disable_default_handler(*arguments: Any) -> None:
    """Has no effect."""


enable_default_handler = disable_propagation = enable_propagation = disable_default_handler
